{{- /* The facts about the settings of `backend kubernetes` that the chart needs. */ -}}

{{- /* A setting with several words, written as text or as a list, as a JSON list. */ -}}
{{- define "codehub.words" -}}
{{- $text := . | default "" }}
{{- if kindIs "slice" . }}
{{- $text = join " " . }}
{{- end }}
{{- regexSplit "[\\s,]+" $text -1 | compact | toJson }}
{{- end }}

{{- /* The images of workspaces and storage jobs, as JSON. */ -}}
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

{{- /* The nodes of workspaces: the constraints in the settings and in the Pod template, as in a Pod. */ -}}
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

{{- /* The common part of the containers in prepull.yaml. */ -}}
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
