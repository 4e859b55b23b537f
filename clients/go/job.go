// A job in a Go service: `generated/job PUNCTUAL_URL`, with SHOP_SECRET in the environment.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"punctual/job/generated"
)

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -generate types,client -package generated -o generated/client.go generated/openapi.json

const jobID = "close-shop"

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// checkAnswer ends the program with the problem of an answer that is no success.
func checkAnswer(err error, status int, body []byte) {
	check(err)
	if status >= 300 {
		log.Fatal(string(body))
	}
}

// shop is the service: what it is called with, and whom it reports to.
type shop struct {
	punctual *generated.ClientWithResponses
	webhook  *webhooks.Webhook
}

func (s shop) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	// The signature is over the bytes of the body: they are read as they came.
	body, err := io.ReadAll(http.MaxBytesReader(writer, request.Body, 1<<20))
	if err != nil || s.webhook.Verify(body, request.Header) != nil {
		writer.WriteHeader(http.StatusUnauthorized)
		return
	}
	var call struct{ Feedback string }
	check(json.Unmarshal(body, &call))
	writer.WriteHeader(http.StatusAccepted)
	go s.close(call.Feedback)
}

// close does the work; then it reports to where the scheduler asked for it.
func (s shop) close(feedback string) {
	address, err := url.Parse(feedback)
	check(err)
	counts, err := strconv.Atoi(path.Base(address.Path))
	check(err)
	token := address.Query().Get("token")
	report := generated.ReportFeedbackJSONRequestBody{"status": "succeed", "message": "closed", "data": map[string]int{"orders": 7}}
	job := strings.Split(address.Path, "/")[2]
	answer, err := s.punctual.ReportFeedbackWithResponse(
		context.Background(), job, counts, &generated.ReportFeedbackParams{Token: &token}, report)
	checkAnswer(err, answer.StatusCode(), answer.Body)
}

func define(address string) generated.JobDefinition {
	period, creator, name, sign, async := "external", "1", "shop", "shop", true
	timer := generated.JobDefinition_Timer{}
	check(timer.FromTimer(generated.Timer{Period: &period}))
	return generated.JobDefinition{
		JobName: "Close the shop", Creator: &creator, CreatorName: &name, Timer: &timer, Async: &async,
		Request: []generated.RequestStep{{
			Url:  "http://" + address + "/close",
			Body: map[string]string{"feedback": "${schedulingFeedbackUrl}"},
			Sign: &sign,
		}},
	}
}

func main() {
	key := generated.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		if key := os.Getenv("PUNCTUAL_KEY"); key != "" {
			request.Header.Set("Authorization", "Bearer "+key)
		}
		return nil
	})
	punctual, err := generated.NewClientWithResponses(os.Args[1], key)
	check(err)
	webhook, err := webhooks.NewWebhook(os.Getenv("SHOP_SECRET"))
	check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go http.Serve(listener, shop{punctual, webhook})

	ctx := context.Background()
	created, err := punctual.CreateJobWithResponse(ctx, jobID, nil, define(listener.Addr().String()))
	checkAnswer(err, created.StatusCode(), created.Body)
	fired, err := punctual.TriggerJobWithResponse(ctx, jobID, nil, generated.TriggerJobJSONRequestBody{})
	checkAnswer(err, fired.StatusCode(), fired.Body)
	for {
		read, err := punctual.ReadExecutionWithResponse(ctx, fired.JSON200.Data.ExecutionId, nil)
		checkAnswer(err, read.StatusCode(), read.Body)
		if execution := read.JSON200.Data; execution.EndedAt != nil {
			fmt.Println(execution.ExecutionId, execution.State)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
