package shop;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import punctual.ApiClient;
import punctual.ApiException;
import punctual.api.ExecutionsApi;
import punctual.api.JobsApi;
import punctual.model.ExecutionInFull;
import punctual.model.JobDefinition;
import punctual.model.RequestStep;
import punctual.model.Timer;

/** A job in a Java service: its argument is the URL of Punctual; SHOP_SECRET is in the environment. */
public final class Job {
  private static final String JOB = "close-shop";
  private static final long TOLERANCE_SECONDS = 300;

  private final JobsApi jobs;
  private final ExecutionsApi executions;
  private final byte[] secret;

  private Job(ApiClient punctual, String secret) {
    jobs = new JobsApi(punctual);
    executions = new ExecutionsApi(punctual);
    this.secret = Base64.getDecoder().decode(secret.replaceFirst("^whsec_", ""));
  }

  public static void main(String[] arguments) throws Exception {
    ApiClient punctual = new ApiClient();
    punctual.updateBaseUri(arguments[0]);
    String key = System.getenv("PUNCTUAL_KEY");
    if (key != null) {
      punctual.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + key));
    }
    Job job = new Job(punctual, System.getenv("SHOP_SECRET"));
    HttpServer shop = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    shop.createContext("/close", job::take);
    shop.start();
    try {
      ExecutionInFull ended = job.run(shop.getAddress().getPort());
      System.out.println(ended.getExecutionId() + " " + ended.getState());
    } finally {
      shop.stop(0);
    }
  }

  private ExecutionInFull run(int port) throws ApiException, InterruptedException {
    RequestStep step = new RequestStep()
        .url("http://127.0.0.1:" + port + "/close")
        .body(Map.of("feedback", "${schedulingFeedbackUrl}"))
        .sign("shop");
    JobDefinition definition = new JobDefinition()
        .jobName("Close the shop")
        .creator("1")
        .creatorName("shop")
        .timer(new Timer().period("external"))
        .async(true)
        .request(List.of(step));
    jobs.createJob(JOB, definition, null, null);
    String id = jobs.triggerJob(JOB, null, null, null, null, Map.of()).getData().getExecutionId();
    ExecutionInFull execution = executions.readExecution(id, null).getData();
    while (execution.getEndedAt() == null) {
      Thread.sleep(50);
      execution = executions.readExecution(id, null).getData();
    }
    return execution;
  }

  /** The service: it takes signed calls alone, and answers before the work. */
  private void take(HttpExchange call) throws IOException {
    byte[] body = call.getRequestBody().readAllBytes();
    boolean isTaken = isSigned(call.getRequestHeaders(), body);
    call.sendResponseHeaders(isTaken ? 202 : 401, -1);
    call.close();
    if (isTaken) {
      close(URI.create((String) new ObjectMapper().readValue(body, Map.class).get("feedback")));
    }
  }

  /** Whether one of the signatures is that of our secret, over id, time and the bytes of the body (Standard Webhooks). */
  private boolean isSigned(Headers headers, byte[] body) {
    String id = headers.getFirst("webhook-id");
    String time = headers.getFirst("webhook-timestamp");
    String signatures = headers.getFirst("webhook-signature");
    if (id == null || time == null || signatures == null || !time.matches("\\d{1,12}")) {
      return false;
    }
    byte[] expected = ("v1," + sign(id + "." + time + ".", body)).getBytes(StandardCharsets.UTF_8);
    boolean isFound = false;
    for (String one : signatures.split(" ")) {
      isFound |= MessageDigest.isEqual(expected, one.getBytes(StandardCharsets.UTF_8));
    }
    return isFound && Math.abs(Instant.now().getEpochSecond() - Long.parseLong(time)) <= TOLERANCE_SECONDS;
  }

  private String sign(String head, byte[] body) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret, "HmacSHA256"));
      mac.update(head.getBytes(StandardCharsets.UTF_8));
      return Base64.getEncoder().encodeToString(mac.doFinal(body));
    } catch (GeneralSecurityException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The work; then its report to where the scheduler asked for it. */
  private void close(URI feedback) {
    String[] path = feedback.getPath().split("/");
    String token = feedback.getQuery().replaceFirst("^.*\\btoken=([^&]*).*$", "$1");
    Map<String, Object> report = Map.of("status", "succeed", "message", "closed", "data", Map.of("orders", 7));
    try {
      jobs.reportFeedback(path[2], Integer.valueOf(path[4]), report, token, null, null, null);
    } catch (ApiException error) {
      System.err.println(error.getMessage());
    }
  }
}
