{{/* A name that every kind of object may have: a letter first, no dots. A release may begin with a digit and have dots. */}}
{{- define "agentd.name" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "agentd-%s" $name }}{{ end -}}
{{- $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* A text as a label's value: versions have a +, and may be long. */}}
{{- define "agentd.label" -}}
{{- regexReplaceAll "[^A-Za-z0-9]+$" (regexReplaceAll "[^A-Za-z0-9_.-]" . "_" | trunc 63) "" -}}
{{- end -}}

{{- define "agentd.selector" -}}
app.kubernetes.io/name: agentd
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "agentd.labels" -}}
{{ include "agentd.selector" . }}
app.kubernetes.io/version: {{ include "agentd.label" .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ include "agentd.label" (printf "%s-%s" .Chart.Name .Chart.Version) | quote }}
{{- end -}}

{{/* agentd.with adds a user's labels to ours. Those that select pods stay ours. */}}
{{- define "agentd.with" -}}
{{- $ours := include "agentd.labels" .root | fromYaml -}}
{{- range $name := keys (include "agentd.selector" .root | fromYaml) -}}
{{- if hasKey $.labels $name }}{{ fail (printf "%s: the chart sets the label %s" $.of $name) }}{{ end -}}
{{- end -}}
{{- mergeOverwrite $ours .labels | toYaml -}}
{{- end -}}

{{- define "agentd.image" -}}
{{- $tag := .Values.image.tag -}}
{{- if not (or $tag .Values.image.digest) }}{{ $tag = .Chart.AppVersion | replace "+" "-" }}{{ end -}}
{{- .Values.image.repository }}{{ with $tag }}:{{ . }}{{ end }}{{ with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{- define "agentd.config" -}}
{{- mergeOverwrite (dict "log_format" "json") .Values.config (dict "host" "0.0.0.0" "port" 8888) | toPrettyJson -}}
{{- end -}}

{{/* agentd.set prints something if config or env sets an option. */}}
{{- define "agentd.set" -}}
{{- if get .root.Values.config .option }}config.{{ .option }}{{ end -}}
{{- range .root.Values.env -}}
{{- if and (eq .name (printf "AGENTD_%s" (upper $.option))) (or .value .valueFrom) }}{{ .name }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "agentd.scheme" -}}
{{- if include "agentd.set" (dict "root" . "option" "tls_cert") }}https{{ else }}http{{ end -}}
{{- end -}}

{{/* agentd.check refuses values that would make a release which does not work. */}}
{{- define "agentd.check" -}}
{{- range .Values.env -}}
{{- if has .name (list "AGENTD_HOST" "AGENTD_PORT" "AGENTD_CONFIG") }}{{ fail (printf "env: the chart sets %s" .name) }}{{ end -}}
{{- end -}}
{{- if .Values.serviceMonitor.enabled -}}
{{- with include "agentd.set" (dict "root" . "option" "auth_token_file") -}}
{{- if not $.Values.serviceMonitor.authorization -}}
{{- fail (printf "serviceMonitor: with %s /metrics needs a token: set serviceMonitor.authorization.credentials to the name and key of a Secret that has one" .) -}}
{{- end -}}
{{- end -}}
{{- if and (eq (include "agentd.scheme" .) "https") (not .Values.serviceMonitor.tlsConfig) -}}
{{- fail "serviceMonitor: with tls_cert Prometheus needs serviceMonitor.tlsConfig, such as {serverName: NAME, ca: {secret: {name: NAME, key: ca.crt}}}" -}}
{{- end -}}
{{- end -}}
{{- end -}}
