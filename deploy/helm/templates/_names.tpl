{{/* Labels by which pods of the gateway are found. */}}
{{- define "looptrap.selector" -}}
app.kubernetes.io/name: looptrap
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of everything of the gateway. */}}
{{- define "looptrap.labels" -}}
{{ include "looptrap.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Labels of Valkey, and by which its pods are found. */}}
{{- define "looptrap.valkey" -}}
app.kubernetes.io/name: valkey
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of the Job that joins Valkey's pods. */}}
{{- define "looptrap.valkeyCreate" -}}
app.kubernetes.io/name: valkey-create
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "looptrap.valkeyName" -}}
{{ .Release.Name }}-valkey
{{- end }}

{{/* The numbers of Valkey's pods: each primary has a replica. */}}
{{- define "looptrap.valkeyPods" -}}
{{ range until (int (mul 2 .Values.valkey.shards)) }}{{ . }} {{ end }}
{{- end }}
