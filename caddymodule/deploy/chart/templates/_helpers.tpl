{{- define "codehub.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "codehub.selector" -}}
app.kubernetes.io/name: codehub
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "codehub.labels" -}}
{{ include "codehub.selector" . }}
app.kubernetes.io/component: gateway
{{ include "codehub.chartLabels" . }}
{{- end }}

{{- define "codehub.chartLabels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "codehub.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "codehub.name" .) -}}
{{- end }}

{{- define "codehub.workspaceNamespace" -}}
{{- .Values.workspaceNamespace | default .Release.Namespace -}}
{{- end }}

{{- /* The namespace of the object store, if it is a Service in another namespace than the workspaces'. */ -}}
{{- define "codehub.storeNamespace" -}}
{{- $s3 := (.Values.codehub).s3 | default dict }}
{{- $parts := splitList "." (urlParse (toString ($s3.job_endpoint | default $s3.endpoint | default ""))).hostname }}
{{- if ge (len $parts) 3 }}
{{- if and (eq (index $parts 2) "svc") (ne (index $parts 1) (include "codehub.workspaceNamespace" .)) }}
{{- index $parts 1 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The host of public_url, without the port. */ -}}
{{- define "codehub.host" -}}
{{- (urlParse .Values.public_url).hostname -}}
{{- end }}

{{- /* The dashboard's host and the workspaces' wildcard, as JSON. */ -}}
{{- define "codehub.hosts" -}}
{{- $hosts := list (include "codehub.host" .) }}
{{- with .Values.domain }}
{{- $hosts = append $hosts (printf "*.%s" .) }}
{{- end }}
{{- toJson $hosts }}
{{- end }}

{{- /* A word in a Caddyfile. A text with several lines becomes a heredoc. */ -}}
{{- define "codehub.word" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}
{{ int64 . }}
{{- else if not (kindIs "string" .) -}}
{{ . }}
{{- else if contains "\n" . -}}
<<CHART
{{ . | trimSuffix "\n" }}
CHART
{{- else -}}
"{{ . | replace "\"" "\\\"" }}"
{{- end -}}
{{- end }}

{{- /* Options in a Caddyfile: a map becomes a block and a list several words; null is left out. */ -}}
{{- define "codehub.options" -}}
{{- range $name, $value := . }}
{{- if kindIs "map" $value }}
{{- if $value }}
{{ $name }} {
{{ include "codehub.options" $value | trim | indent 2 }}
}
{{- end }}
{{- else if kindIs "slice" $value }}
{{- if $value }}
{{ $name }}{{ range $value }} {{ include "codehub.word" . }}{{ end }}
{{- end }}
{{- else if not (kindIs "invalid" $value) }}
{{ $name }} {{ include "codehub.word" $value }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The default tag of an image. */ -}}
{{- define "codehub.tag" -}}
{{- .Values.image.tag | default .Chart.AppVersion -}}
{{- end }}

{{- /* The storage job's image: it has the registry, the folder and the tag of the gateway's. */ -}}
{{- define "codehub.jobImage" -}}
{{- $folder := trimSuffix (base .Values.image.repository) .Values.image.repository -}}
{{ $folder }}storagejob:{{ include "codehub.tag" . }}
{{- end }}

{{- /* The gateway's image. */ -}}
{{- define "codehub.image" -}}
{{- with .Values.image.digest -}}
{{ $.Values.image.repository }}@{{ . }}
{{- else -}}
{{ .Values.image.repository }}:{{ include "codehub.tag" . }}
{{- end -}}
{{- end }}

{{- /* The names of Secrets, as JSON. Each element of the value is a name, or an object with a name. */ -}}
{{- define "codehub.secretNames" -}}
{{- $names := list }}
{{- range . }}
{{- $name := . }}
{{- if kindIs "map" . }}
{{- $name = .name }}
{{- end }}
{{- $names = append $names $name }}
{{- end }}
{{- $names | uniq | toJson }}
{{- end }}

{{- /* The source of the gateway's variable env: the Secret, or the entry in secretKeys. */ -}}
{{- define "codehub.secretKey" -}}
{{- $at := index .root.Values.secretKeys .env | default .env -}}
{{- if kindIs "string" $at -}}
{{- $at = dict "key" $at -}}
{{- end -}}
{name: {{ $at.name | default .root.Values.secretName | quote }}, key: {{ $at.key | default .env | quote }}
{{- if .optional }}, optional: true{{ end }}}
{{- end }}

{{- /* The versions of the Secrets and ConfigMaps that the gateway reads but the chart does not create. Empty if
       Helm does not contact the cluster, as in `helm template`. */ -}}
{{- define "codehub.versions" -}}
{{- $secrets := list .Values.secretName .Values.filesSecretName }}
{{- range .Values.secretKeys }}
{{- if kindIs "map" . }}
{{- $secrets = append $secrets .name }}
{{- end }}
{{- end }}
{{- $configMaps := list .Values.filesConfigMapName }}
{{- range .Values.extraEnv }}
{{- $from := .valueFrom | default dict }}
{{- $secrets = append $secrets ($from.secretKeyRef | default dict).name }}
{{- $configMaps = append $configMaps ($from.configMapKeyRef | default dict).name }}
{{- end }}
{{- range .Values.envFrom }}
{{- $secrets = append $secrets (.secretRef | default dict).name }}
{{- $configMaps = append $configMaps (.configMapRef | default dict).name }}
{{- end }}
{{- range $kind, $names := dict "Secret" $secrets "ConfigMap" $configMaps }}
{{- range $names | compact | uniq | sortAlpha }}
{{- with lookup "v1" $kind $.Release.Namespace . }}
{{- printf "%s %s %s\n" $kind .metadata.name .metadata.resourceVersion }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "codehub.caddyfile" -}}
{
  admin localhost:2019
  shutdown_delay {{ .Values.drainSeconds }}s
  grace_period {{ .Values.graceSeconds }}s
  servers {
    max_header_size 1MiB
{{- with .Values.trustedProxies }}
    trusted_proxies static {{ join " " . }}
    trusted_proxies_strict
{{- end }}
{{- with .Values.extraServers }}
{{ trim . | indent 4 }}
{{- end }}
  }
{{- with .Values.extraGlobal }}
{{- if regexMatch `(?m)^\s*servers\s*\{` . }}
{{- fail "extraGlobal: the chart has a block `servers` already, and Caddy ignores another one; write its lines into extraServers" }}
{{- end }}
{{ trim . | indent 2 }}
{{- end }}
  codehub {
    database {env.DATABASE_URL}
    redis {env.REDIS_URL}
    admin_password {env.CODEHUB_ADMIN_PASSWORD}
    installation {{ include "codehub.word" .Values.installation }}
    public_url {{ include "codehub.word" .Values.public_url }}
{{- with .Values.domain }}
    domain {{ include "codehub.word" . }}
{{- end }}
{{- $codehub := deepCopy (.Values.codehub | default dict) }}
{{- $s3 := merge (dict) ($codehub.s3 | default dict) (dict "access_key" "{env.S3_ACCESS_KEY}" "secret_key" "{env.S3_SECRET_KEY}") }}
{{- $coordinator := merge (dict "node_id" "{env.COORDINATOR_NODE_ID}" "shards" .Values.shards) ($codehub.coordinator | default dict) }}
{{- $more := dict "s3" $s3 "coordinator" $coordinator }}
{{- with $codehub.oidc }}
{{- $_ := set $more "oidc" (merge (dict) . (dict "client_secret" "{env.OIDC_CLIENT_SECRET}")) }}
{{- end }}
{{ include "codehub.options" (merge $more $codehub) | trim | indent 4 }}
{{- $kubernetes := dict "job_image" (include "codehub.jobImage" .) "namespace" (include "codehub.workspaceNamespace" .)
      "gateway_pods" (list "app.kubernetes.io/name=codehub" (printf "app.kubernetes.io/instance=%s" .Release.Name)) }}
{{- with .Values.imagePullSecrets }}
{{- $_ := set $kubernetes "image_pull_secrets" (include "codehub.secretNames" . | fromJsonArray) }}
{{- end }}
{{- if .Values.podTemplate }}
{{- $_ := set $kubernetes "pod_template" "/etc/caddy/pod-template.yaml" }}
{{- end }}
{{- $kubernetes = merge (dict) (.Values.kubernetes | default dict) $kubernetes }}
    backend kubernetes {
{{ include "codehub.options" $kubernetes | trim | indent 6 }}
    }
{{- with .Values.images }}
    images {
{{- range . }}
      {{ include "codehub.word" .name }} {
{{ include "codehub.options" (omit . "name" "keep_prefix" "git") | trim | indent 8 }}
{{- if .keep_prefix }}
        keep_prefix
{{- end }}
{{- if .git }}
        git
{{- end }}
      }
{{- end }}
    }
{{- end }}
  }
}

http://:8080 {
{{- with .Values.extraSite }}
{{ trim . | indent 2 }}
{{- end }}
  @codehub_pages header Accept *text/html*
  encode @codehub_pages zstd gzip {
    match {
      header Content-Type text/html*
      header !Etag
    }
  }
  codehub_api
{{- if .Values.gateway }}
  codehub {
{{ include "codehub.options" (omit .Values.gateway "strip_authorization") | trim | indent 4 }}
{{- if .Values.gateway.strip_authorization }}
    strip_authorization
{{- end }}
  }
{{- else }}
  codehub
{{- end }}
}
{{- if .Values.metrics.enabled }}

http://:{{ .Values.metrics.port }} {
  route {
    metrics /metrics
    respond 404
  }
}
{{- end }}
{{- end }}
