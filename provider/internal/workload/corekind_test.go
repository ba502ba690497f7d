package workload

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// parseObject reads YAML in JSON's terms.
func parseObject(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		t.Fatal(err)
	}
	return object
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web}, creationTimestamp: null}
spec:
  replicas: 3
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, tier: front}}
    spec:
      containers:
        - name: web
          image: nginx:1
          ports: [{containerPort: 80, name: http}]
          resources: {limits: {cpu: 500m, memory: 1Gi}, requests: {cpu: 1}}
          env: [{name: A, value: "1"}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
          livenessProbe: {httpGet: {path: /, port: http}}
          securityContext: {runAsNonRoot: true, capabilities: {drop: [ALL]}}
      volumes: [{name: tmp, emptyDir: {sizeLimit: 1Gi}}]
`

// Each case changes a text of the deployment, or is an object of its own.
func TestProblems(t *testing.T) {
	for name, test := range map[string]struct {
		object, from, to string
		want             []string
	}{
		"fine":                    {from: "", to: "", want: nil},
		"unknown field":           {from: "replicas: 3", to: "replica: 3", want: []string{"spec.replica is unknown, so that clusters drop it; did you mean replicas?"}},
		"unknown field deep down": {from: "ports: [{", to: "prots: [{", want: []string{"spec.template.spec.containers[0].prots is unknown, so that clusters drop it; did you mean ports?"}},
		"letters":                 {from: "livenessProbe:", to: "livenessprobe:", want: []string{"spec.template.spec.containers[0].livenessprobe is unknown, so that clusters drop it; did you mean livenessProbe?"}},
		"unlike any":              {from: "replicas: 3", to: "copies: 3", want: []string{"spec.copies is unknown, so that clusters drop it"}},
		"text for a number":       {from: "replicas: 3", to: `replicas: "3"`, want: []string{"spec.replicas has to be a whole number, and is a text"}},
		"fraction":                {from: "replicas: 3", to: `replicas: 3.5`, want: []string{"spec.replicas has to be a whole number, and is a number"}},
		"too great":               {from: "replicas: 3", to: `replicas: 3000000000`, want: []string{"spec.replicas has to fit into 32 bits"}},
		"number for a text":       {from: `value: "1"`, to: "value: 1", want: []string{"spec.template.spec.containers[0].env[0].value has to be a text, and is a number"}},
		"object for a list":       {from: "ports: [{containerPort: 80, name: http}]", to: "ports: {containerPort: 80}", want: []string{"spec.template.spec.containers[0].ports has to be a list, and is an object"}},
		"quantity":                {from: "memory: 1Gi", to: "memory: 1GiB", want: []string{"spec.template.spec.containers[0].resources.limits.memory has to be a quantity such as 500m or 1Gi, and is a text"}},
		"selector":                {from: "matchLabels: {app: web}", to: "matchLabels: {app: shop}", want: []string{"spec.selector.matchLabels.app is not among spec.template.metadata.labels"}},
		"no selector":             {from: "selector: {matchLabels: {app: web}}", to: "", want: []string{"spec.selector is missing or empty"}},
		"no image":                {from: "image: nginx:1", to: "", want: []string{"spec.template.spec.containers[0].image is missing"}},
		"container name":          {from: "- name: web", to: "- name: Web_1", want: []string{"spec.template.spec.containers[0].name is \"Web_1\""}},
		"port":                    {from: "containerPort: 80", to: "containerPort: 80000", want: []string{"spec.template.spec.containers[0].ports[0].containerPort has to be a number from 1 to 65535"}},
		"strategy":                {from: "type: RollingUpdate", to: "type: Rolling", want: []string{"spec.strategy.type has to be one of RollingUpdate, Recreate"}},
		"name":                    {from: "name: web, namespace", to: "name: UPPER_CASE, namespace", want: []string{`metadata.name is "UPPER_CASE", which can't be the name of a Deployment`}},
		"no namespace":            {from: ", namespace: shop", to: "", want: []string{"metadata.namespace is missing; a Deployment has one"}},
		"label":                   {from: "labels: {app: web}, creation", to: "labels: {app: a b}, creation", want: []string{"metadata.labels.app is no valid label"}},
		"restart policy":          {from: "volumes:", to: "restartPolicy: Never\n      volumes:", want: []string{"spec.template.spec.restartPolicy has to be one of Always"}},
		"unknown kind":            {object: "{apiVersion: v1, kind: ConfigMapp, metadata: {name: x}}", want: []string{"kind is ConfigMapp, which v1 of Kubernetes " + KubernetesRelease + " does not have; did you mean ConfigMap?"}},
		"kind of another group":   {object: "{apiVersion: v1, kind: Deployment, metadata: {name: x}}", want: []string{"did you mean Deployment of apps/v1?"}},
		"version that is gone":    {object: "{apiVersion: extensions/v1beta1, kind: Ingress, metadata: {name: x}}", want: []string{"apiVersion is extensions/v1beta1, which no supported release of Kubernetes has for the kind Ingress: use networking.k8s.io/v1"}},
		"custom resource":         {object: "{apiVersion: example.com/v1, kind: Shop, metadata: {name: UPPER}, spec: {x: 1}}", want: nil},
		"later API of Kubernetes": {object: "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: x}}", want: nil},
		"namespace":               {object: "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}", want: nil},
		"role":                    {object: `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "system:x"}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`, want: nil},
		"binding":                 {object: "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: x}, roleRef: {kind: ClusterRole, name: view}, subjects: [{kind: ServiceAccount, name: z}]}", want: []string{"subjects[0].namespace is missing"}},
		"config map of numbers":   {object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: shop}, data: {a: 1}}", want: []string{"data.a has to be a text, and is a number"}},
		"secret that is no data":  {object: "{apiVersion: v1, kind: Secret, metadata: {name: x, namespace: shop}, data: {a: 'plain text'}}", want: []string{"data.a has to be base64"}},
		"job":                     {object: "{apiVersion: batch/v1, kind: Job, metadata: {name: x, namespace: shop}, spec: {template: {spec: {containers: [{name: a, image: b}]}}}}", want: []string{"spec.template.spec.restartPolicy is missing; a job needs OnFailure or Never"}},
		"cron job":                {object: "{apiVersion: batch/v1, kind: CronJob, metadata: {name: x, namespace: shop}, spec: {schedule: '@daily', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}}}", want: nil},
		"headless service":        {object: "{apiVersion: v1, kind: Service, metadata: {name: x, namespace: shop}, spec: {clusterIP: None, selector: {a: b}}}", want: nil},
		"service without ports":   {object: "{apiVersion: v1, kind: Service, metadata: {name: x, namespace: shop}, spec: {selector: {a: b}}}", want: []string{"spec.ports is missing or empty"}},
		"nothing but a name":      {object: "{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: shop}}", want: []string{"spec.containers is missing or empty"}},
		"definition":              {object: "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: shops.example.com}, spec: {group: example.com, scope: Namespaced, names: {plural: shops, kind: Shop}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: array, items: {type: string}, default: [x]}}}}}]}}", want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			text := test.object
			if text == "" {
				if text = strings.Replace(deployment, test.from, test.to, 1); text == deployment && test.from != "" {
					t.Fatalf("%q is not in the deployment", test.from)
				}
			}
			got := CheckObject(parseObject(t, text))
			if len(got) != len(test.want) {
				t.Fatalf("got %v, want %v", got, test.want)
			}
			for i, problem := range got {
				if !strings.Contains(problem.String(), test.want[i]) {
					t.Errorf("got %s, want %s", problem, test.want[i])
				}
			}
		})
	}
}

// No input makes it panic.
func TestOddObjects(t *testing.T) {
	for _, text := range []string{
		"{apiVersion: 1, kind: 2}", "{apiVersion: v1, kind: Pod, metadata: [], spec: []}", "{apiVersion: v1, kind: Pod, spec: {containers: [null, 1, {ports: [null]}]}}",
		"{apiVersion: v1, kind: Service, metadata: {name: 1}, spec: {ports: [1]}}", "{apiVersion: apps/v1, kind: Deployment, spec: null}", "{}",
	} {
		CheckObject(parseObject(t, text))
	}
	CheckObject(nil)
}

func TestResources(t *testing.T) {
	for kind, want := range map[[2]string]string{
		{"v1", "ConfigMap"}: "configmaps", {"v1", "Endpoints"}: "endpoints", {"networking.k8s.io/v1", "NetworkPolicy"}: "networkpolicies",
		{"networking.k8s.io/v1", "Ingress"}: "ingresses", {"storage.k8s.io/v1", "StorageClass"}: "storageclasses", {"example.com/v1", "Shop"}: "",
	} {
		if got, known := ResourceOf(kind[0], kind[1]); got != want || known != (want != "") {
			t.Errorf("%v: got %q", kind, got)
		}
	}
}

// Each API version that is listed has kinds.
func TestKindsHaveTypes(t *testing.T) {
	for _, group := range coreGroups() {
		if len(kindsOf(group)) == 0 {
			t.Errorf("%s has no kinds", group)
		}
	}
}
