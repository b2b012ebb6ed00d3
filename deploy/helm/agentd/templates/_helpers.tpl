{{- define "agentd.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "agentd.selector" -}}
app.kubernetes.io/name: agentd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "agentd.labels" -}}
{{ include "agentd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "agentd.config" -}}
{{- $config := merge (dict "host" "0.0.0.0" "port" 8888 "log_format" "json") .Values.config -}}
{{- $config | toPrettyJson -}}
{{- end -}}
