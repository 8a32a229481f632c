{{- /* What the chart needs to know of the settings of `backend kubernetes`. */ -}}

{{- /* A setting with several words, each of which is a word or in a list of them, as a list in JSON. */ -}}
{{- define "codehub.words" -}}
{{- $text := . | default "" }}
{{- if kindIs "slice" . }}
{{- $text = join " " . }}
{{- end }}
{{- regexSplit "[\\s,]+" $text -1 | compact | toJson }}
{{- end }}

{{- /* The images that workspaces and storage jobs start from, in JSON. */ -}}
{{- define "codehub.workspaceImages" -}}
{{- $kubernetes := .Values.kubernetes | default dict }}
{{- $images := list ($kubernetes.job_image | default (include "codehub.jobImage" .)) }}
{{- range .Values.images }}
{{- $images = append $images .reference }}
{{- else }}
{{- $images = append $images $kubernetes.workspace_image }}
{{- end }}
{{- concat $images .Values.prePull.images | compact | uniq | toJson }}
{{- end }}

{{- /* The nodes of workspaces: what the settings and the Pod template say of them, as in a Pod. */ -}}
{{- define "codehub.workspaceNodes" -}}
{{- $kubernetes := .Values.kubernetes | default dict }}
{{- $template := (.Values.podTemplate | default dict).spec | default dict }}
{{- $selector := dict }}
{{- range include "codehub.words" $kubernetes.node_selector | fromJsonArray }}
{{- $pair := regexSplit "=" . 2 }}
{{- $_ := set $selector (first $pair) (last $pair) }}
{{- end }}
{{- $tolerations := list }}
{{- range include "codehub.words" $kubernetes.tolerations | fromJsonArray }}
{{- $taint := regexSplit ":" . 2 }}
{{- $pair := regexSplit "=" (first $taint) 2 }}
{{- $toleration := dict "key" (first $pair) "operator" "Exists" }}
{{- if gt (len $pair) 1 }}
{{- $toleration = dict "key" (first $pair) "operator" "Equal" "value" (last $pair) }}
{{- end }}
{{- if gt (len $taint) 1 }}
{{- $_ := set $toleration "effect" (last $taint) }}
{{- end }}
{{- $tolerations = append $tolerations $toleration }}
{{- end }}
{{- $nodes := dict }}
{{- with merge (dict) ($template.nodeSelector | default dict) $selector }}
{{- $_ := set $nodes "nodeSelector" . }}
{{- end }}
{{- with concat $tolerations ($template.tolerations | default list) }}
{{- $_ := set $nodes "tolerations" . }}
{{- end }}
{{- with $template.affinity }}
{{- $_ := set $nodes "affinity" . }}
{{- end }}
{{- with $nodes }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- /* What the containers of prepull.yaml have in common. */ -}}
{{- define "codehub.prePullContainer" -}}
imagePullPolicy: IfNotPresent
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources:
  {{- toYaml .Values.prePull.resources | nindent 2 }}
volumeMounts:
  - {name: program, mountPath: /program}
{{- end }}

{{- define "codehub.prePullSelector" -}}
app.kubernetes.io/name: codehub-prepull
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
