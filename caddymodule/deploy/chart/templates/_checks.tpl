{{- /* Checks that the schema cannot express. Each error has the value and what to write instead. */ -}}

{{- /* The grammar of image names: a registry comes before a slash, and has a dot or a port or is localhost. */ -}}
{{- define "codehub.nameForm" -}}
((localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+)(:[0-9]+)?/|[A-Za-z0-9-]+:[0-9]+/|\[[0-9a-fA-F:]+\](:[0-9]+)?/)?
{{- /**/ -}}
[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*
{{- end }}
{{- define "codehub.tagForm" -}}
[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}
{{- end }}

{{- /* Fails unless value, which the user knows as name, is an image reference or contains a placeholder. */ -}}
{{- define "codehub.checkImage" -}}
{{- $form := printf "^%s(:%s)?(@[a-z0-9]+:[0-9a-f]{32,})?$" (include "codehub.nameForm" .) (include "codehub.tagForm" .) }}
{{- if not (or (regexMatch $form .value) (regexMatch `\{(env|file)\.[^{}]+\}` .value)) }}
{{- fail (printf "%s: %q is not an image: write its name in lower case, without spaces, with a tag or a digest, as in registry.example.com/team/code:1.0"
      .name .value) }}
{{- end }}
{{- end }}

{{- define "codehub.checkImages" -}}
{{- $repository := .Values.image.repository }}
{{- $name := printf "^%s$" (include "codehub.nameForm" .) }}
{{- if regexMatch (printf "^%s(:%s|@.*)$" (include "codehub.nameForm" .) (include "codehub.tagForm" .)) $repository }}
{{- fail (printf "image.repository: %q has a tag or a digest: write that into image.tag or image.digest" $repository) }}
{{- else if not (regexMatch $name $repository) }}
{{- fail (printf "image.repository: %q is not the name of an image: write it in lower case, without spaces, as in registry.example.com/codehub/gateway"
      $repository) }}
{{- end }}
{{- if not (regexMatch (printf "^%s$" (include "codehub.tagForm" .)) (include "codehub.tag" .)) }}
{{- fail (printf "image.tag: %q is not a tag: write up to 128 letters, digits, '_', '.' and '-', such as %s"
      .Values.image.tag .Chart.AppVersion) }}
{{- end }}
{{- range $setting, $image := pick (.Values.kubernetes | default dict) "workspace_image" "job_image" }}
{{- if kindIs "string" $image }}
{{- include "codehub.checkImage" (dict "name" (printf "kubernetes.%s" $setting) "value" $image) }}
{{- end }}
{{- end }}
{{- range $i, $image := .Values.images }}
{{- include "codehub.checkImage" (dict "name" (printf "images[%d].reference" $i) "value" $image.reference) }}
{{- end }}
{{- range $i, $image := .Values.prePull.images }}
{{- include "codehub.checkImage" (dict "name" (printf "prePull.images[%d]" $i) "value" $image) }}
{{- end }}
{{- $template := (.Values.podTemplate | default dict).spec | default dict }}
{{- $all := dict "initContainers" .Values.initContainers "podTemplate.spec.initContainers" $template.initContainers
      "podTemplate.spec.containers" $template.containers }}
{{- range $where, $containers := $all }}
{{- range $i, $container := $containers }}
{{- with $container.image }}
{{- include "codehub.checkImage" (dict "name" (printf "%s[%d].image" $where $i) "value" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A number of Pods, or a percentage of count, rounded up as a cluster does. */ -}}
{{- define "codehub.part" -}}
{{- $text := toString .value }}
{{- if hasSuffix "%" $text -}}
{{ divf (mulf (trimSuffix "%" $text) .count) 100 | ceil }}
{{- else -}}
{{ $text }}
{{- end -}}
{{- end }}

{{- define "codehub.checkDisruptions" -}}
{{- $budget := .Values.podDisruptionBudget }}
{{- $count := int .Values.replicas }}
{{- $name := "replicas" }}
{{- if .Values.autoscaling.enabled }}
{{- $count = int .Values.autoscaling.minReplicas }}
{{- $name = "autoscaling.minReplicas" }}
{{- if lt (int .Values.autoscaling.maxReplicas) $count }}
{{- fail (printf "autoscaling.maxReplicas: %v is less than autoscaling.minReplicas, %v: write at least that"
      .Values.autoscaling.maxReplicas $count) }}
{{- end }}
{{- end }}
{{- if and $budget.enabled (gt $count 0) }}
{{- $kept := $budget.minAvailable | toString }}
{{- if and (ne $kept "") (ge (include "codehub.part" (dict "value" $kept "count" $count) | float64) (float64 $count)) }}
{{- fail (printf "podDisruptionBudget.minAvailable: %s of %d gateways (%s) lets none be evicted, so no node with one could be drained: %s"
      $kept $count $name "write less, or maxUnavailable in its place") }}
{{- end }}
{{- if and (eq $kept "") (eq (trimSuffix "%" (toString $budget.maxUnavailable) | float64) 0.0) }}
{{- fail (printf "podDisruptionBudget.maxUnavailable: %v lets no gateway be evicted, so no node with one could be drained: write 1 or more"
      $budget.maxUnavailable) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Options that only some types of Services have. */ -}}
{{- define "codehub.checkService" -}}
{{- $service := .Values.service }}
{{- if ne $service.type "LoadBalancer" }}
{{- range $option := list "loadBalancerClass" "loadBalancerIP" "loadBalancerSourceRanges" "healthCheckNodePort" }}
{{- if get $service $option }}
{{- fail (printf "service.%s: a Service of type %s has none: leave it out, or write service.type: LoadBalancer"
      $option $service.type) }}
{{- end }}
{{- end }}
{{- end }}
{{- if eq $service.type "ClusterIP" }}
{{- if $service.nodePort }}
{{- fail "service.nodePort: a Service of type ClusterIP has none: leave it out, or write service.type: NodePort or LoadBalancer" }}
{{- end }}
{{- if and $service.externalTrafficPolicy (not $service.externalIPs) }}
{{- fail "service.externalTrafficPolicy: nobody outside reaches a Service of type ClusterIP: leave it out, or write service.type: NodePort or LoadBalancer" }}
{{- end }}
{{- end }}
{{- if and $service.healthCheckNodePort (ne $service.externalTrafficPolicy "Local") }}
{{- fail "service.healthCheckNodePort: only a Service with externalTrafficPolicy: Local has one: write that, too" }}
{{- end }}
{{- end }}

{{- define "codehub.check" -}}
{{- include "codehub.checkImages" . }}
{{- include "codehub.checkDisruptions" . }}
{{- include "codehub.checkService" . }}
{{- $labelled := dict "podLabels" .Values.podLabels "service.labels" .Values.service.labels
      "serviceAccount.labels" .Values.serviceAccount.labels }}
{{- range $values, $labels := $labelled }}
{{- range $label := keys (include "codehub.labels" $ | fromYaml) }}
{{- if hasKey $labels $label }}
{{- fail (printf "%s: the chart itself sets %s: leave it out" $values $label) }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.prePull.enabled }}
{{- $kubernetes := .Values.kubernetes | default dict }}
{{- $settings := dict "kubernetes.workspace_image or images" (include "codehub.workspaceImages" .)
      "kubernetes.node_selector" $kubernetes.node_selector "kubernetes.tolerations" $kubernetes.tolerations }}
{{- range $setting, $value := $settings }}
{{- if contains "{" (toString $value) }}
{{- fail (printf "prePull: the chart does not know what the placeholder in %s stands for (%v): write the value itself"
      $setting $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
