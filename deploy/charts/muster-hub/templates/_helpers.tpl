{{- define "muster-hub.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "muster-hub.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "muster-hub.labels" -}}
{{ include "muster-hub.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "muster-hub.host" -}}
{{- regexReplaceAll ":[0-9]+$" (urlParse .Values.externalURL).host "" -}}
{{- end }}

{{- define "muster-hub.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "muster-hub.certificateSecret" -}}
{{- .Values.servingCertificate.secretName | default (printf "%s-tls" (include "muster-hub.name" .)) -}}
{{- end }}

{{- define "muster-hub.hasCertificate" -}}
{{- if or .Values.servingCertificate.secretName .Values.servingCertificate.certManager.enabled }}true{{ end -}}
{{- end }}

{{- /* What values can't be together. */ -}}
{{- define "muster-hub.check" -}}
{{- if not .Values.externalURL }}
{{- fail "externalURL is missing: set it to the URL at which agents and users reach the hub, such as https://hub.example.org:6443" }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.etcd.servers) }}
{{- fail (printf "replicas is %d and etcd.servers is empty: several hubs share an etcd, so name its URLs, or leave replicas at 1" (int .Values.replicas)) }}
{{- end }}
{{- if and .Values.etcd.servers (not .Values.replicaKey.secretName) }}
{{- fail "etcd.servers is set without replicaKey.secretName: name a Secret with a file replica-key, by which the hubs share their keys (kubectl create secret generic NAME --from-literal=replica-key=$(openssl rand -hex 32))" }}
{{- end }}
{{- if and .Values.replicaKey.secretName (not .Values.etcd.servers) }}
{{- fail "replicaKey.secretName is set without etcd.servers: a hub with an etcd of its own is alone, so leave it out" }}
{{- end }}
{{- if and .Values.backup.enabled .Values.etcd.servers }}
{{- fail "backup.enabled is for a hub with an etcd of its own: back up that of etcd.servers with etcdctl snapshot save" }}
{{- end }}
{{- if and .Values.backup.enabled (not .Values.backup.recipients) }}
{{- fail "backup.enabled is set without backup.recipients: name an age recipient, which age-keygen prints, that can open the backups" }}
{{- end }}
{{- if and .Values.servingCertificate.certManager.enabled (not .Values.servingCertificate.certManager.issuerRef.name) }}
{{- fail "servingCertificate.certManager.enabled is set without issuerRef.name: name the Issuer or ClusterIssuer" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.tokenSecretName) }}
{{- fail "serviceMonitor.enabled is set without tokenSecretName: name a Secret with a token of the hub that may read /metrics" }}
{{- end }}
{{- end }}
