{{- define "punctual.selector" -}}
app.kubernetes.io/name: punctual
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "punctual.labels" -}}
{{ include "punctual.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* Seconds in which others learn that no request comes here any more. */}}
{{- define "punctual.leaving" -}}
5
{{- end }}

{{/* Seconds until a node has certainly ended: the drain, and ten for the history. */}}
{{- define "punctual.ending" -}}
{{ add (include "punctual.leaving" .) .Values.drainSeconds 10 }}
{{- end }}
