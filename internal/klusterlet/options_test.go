package klusterlet_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// everything has each option set.
func everything() v1alpha1.AgentOptions {
	return v1alpha1.AgentOptions{
		Image: "registry.example.com/muster:1", ImagePullPolicy: corev1.PullAlways,
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		Namespace:        "agents", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b"},
		Env: []v1alpha1.EnvVar{{Name: "GODEBUG", Value: "x509sha1=1"}}, Args: []string{"-v=2"},
		Tolerations:  []corev1.Toleration{{Key: "edge", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](5)}},
		NodeSelector: map[string]string{"pool": "system"},
		Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "arch", Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}}}},
			}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 10, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}},
			}},
		},
		Resources:   &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
		HostNetwork: true, PriorityClassName: "system-cluster-critical", UserAccess: true, Tunnels: true,
	}
}

// A test of its own for each option that is added: everything has to set it.
func TestEveryOptionIsRendered(t *testing.T) {
	o := everything()
	fields := reflect.ValueOf(o)
	for i := range fields.NumField() {
		if fields.Field(i).IsZero() {
			t.Errorf("the test sets no %s", fields.Type().Field(i).Name)
		}
	}
	if problems := klusterlet.Validate(o, nil); len(problems) > 0 {
		t.Errorf("refused: %v", problems)
	}
	d := get[*appsv1.Deployment](t, klusterlet.Options{ClusterName: "c1", AgentOptions: o, InstalledBy: muster.InstalledByImport})
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	for what, ok := range map[string]bool{
		"image":             c.Image == o.Image,
		"pull policy":       c.ImagePullPolicy == o.ImagePullPolicy,
		"pull secrets":      reflect.DeepEqual(pod.ImagePullSecrets, o.ImagePullSecrets),
		"namespace":         d.Namespace == "agents" && slices.Contains(c.Args, "--namespace=agents"),
		"labels":            d.Labels["team"] == "a" && d.Spec.Template.Labels["team"] == "a",
		"annotations":       d.Spec.Template.Annotations["note"] == "b",
		"who installs":      d.Annotations[muster.InstalledByAnnotation] == muster.InstalledByImport,
		"env":               reflect.DeepEqual(c.Env, []corev1.EnvVar{{Name: "GODEBUG", Value: "x509sha1=1"}}),
		"args":              c.Args[len(c.Args)-1] == "-v=2",
		"tolerations":       reflect.DeepEqual(pod.Tolerations, o.Tolerations),
		"node selector":     reflect.DeepEqual(pod.NodeSelector, o.NodeSelector),
		"affinity":          reflect.DeepEqual(pod.Affinity, o.Affinity),
		"resources":         reflect.DeepEqual(c.Resources, *o.Resources),
		"host network":      pod.HostNetwork && pod.DNSPolicy == corev1.DNSClusterFirstWithHostNet && c.Ports[0].HostPort == c.Ports[0].ContainerPort,
		"one at a time":     d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue() == 0 && d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() == 1,
		"priority class":    pod.PriorityClassName == o.PriorityClassName,
		"user access":       slices.Contains(c.Args, "--user-access"),
		"tunnels":           slices.Contains(c.Args, "--tunnels"),
		"nothing is shared": pod.Affinity != o.Affinity,
	} {
		if !ok {
			t.Errorf("not rendered: %s", what)
		}
	}
}

// The options of one cluster never get into another's agent.
func TestRenderingsShareNothing(t *testing.T) {
	o := everything()
	o.Env = append(o.Env, v1alpha1.EnvVar{Name: "HTTPS_PROXY", Value: "http://one.example.com:3128"})
	before := o.DeepCopy()
	d := get[*appsv1.Deployment](t, klusterlet.Options{ClusterName: "one", AgentOptions: o})
	pod := &d.Spec.Template.Spec
	pod.Containers[0].Env[0].Value, pod.Containers[0].Args[len(pod.Containers[0].Args)-1] = "changed", "changed"
	pod.Tolerations[0].Key, pod.NodeSelector["pool"], d.Spec.Template.Annotations["note"] = "changed", "changed", "changed"
	pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Key = "changed"
	pod.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1")
	pod.ImagePullSecrets[0].Name = "changed"
	if !reflect.DeepEqual(&o, before) {
		t.Errorf("the options became\n%+v", o)
	}
	plain := get[*appsv1.Deployment](t, klusterlet.Options{ClusterName: "two"})
	if env := plain.Spec.Template.Spec.Containers[0].Env; env != nil {
		t.Errorf("the next cluster's agent has %v", env)
	}
}

// Behind a proxy the agent still reaches its own API server, which is in no proxy's
// reach.
func TestAProxyIsNotForTheClusterItself(t *testing.T) {
	env := func(pairs ...string) (variables []v1alpha1.EnvVar) {
		for i := 0; i < len(pairs); i += 2 {
			variables = append(variables, v1alpha1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
		}
		return variables
	}
	for name, tc := range map[string]struct{ given, want []v1alpha1.EnvVar }{
		"no proxy at all":      {env("NO_PROXY", ".corp"), env("NO_PROXY", ".corp")},
		"a proxy alone":        {env("HTTPS_PROXY", "http://p:1"), env("HTTPS_PROXY", "http://p:1", "NO_PROXY", "$(KUBERNETES_SERVICE_HOST)")},
		"an empty one":         {env("HTTPS_PROXY", ""), env("HTTPS_PROXY", "")},
		"with exemptions":      {env("https_proxy", "http://p:1", "no_proxy", ".corp, 10.0.0.0/8"), env("https_proxy", "http://p:1", "no_proxy", ".corp,10.0.0.0/8,$(KUBERNETES_SERVICE_HOST)")},
		"exempt already":       {env("HTTP_PROXY", "http://p:1", "NO_PROXY", "$(KUBERNETES_SERVICE_HOST)"), env("HTTP_PROXY", "http://p:1", "NO_PROXY", "$(KUBERNETES_SERVICE_HOST)")},
		"everything is exempt": {env("HTTP_PROXY", "http://p:1", "NO_PROXY", "*"), env("HTTP_PROXY", "http://p:1", "NO_PROXY", "*")},
	} {
		t.Run(name, func(t *testing.T) {
			var got []v1alpha1.EnvVar
			for _, v := range get[*appsv1.Deployment](t, klusterlet.Options{ClusterName: "c", AgentOptions: v1alpha1.AgentOptions{Env: tc.given}}).Spec.Template.Spec.Containers[0].Env {
				got = append(got, v1alpha1.EnvVar{Name: v.Name, Value: v.Value})
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// The rights of user access are there with it alone, and are found when it is off.
func TestRightsOfUserAccessGoWithIt(t *testing.T) {
	ids := func(objects []klusterlet.Object) (names []string) {
		for _, o := range objects {
			names = append(names, id(o))
		}
		return names
	}
	access := []string{
		"rbac.authorization.k8s.io/v1 ClusterRole open-cluster-management:klusterlet-access:agent",
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding open-cluster-management:klusterlet-access:agent",
	}
	off, on := klusterlet.Options{ClusterName: "c"}, klusterlet.Options{ClusterName: "c", AgentOptions: v1alpha1.AgentOptions{UserAccess: true}}
	for _, name := range access {
		if !slices.Contains(ids(klusterlet.Render(on)), name) || slices.Contains(ids(klusterlet.Render(off)), name) || !slices.Contains(ids(klusterlet.Objects(off)), name) {
			t.Errorf("%s is rendered without user access, or is not with it", name)
		}
	}
	if got := ids(klusterlet.Obsolete(off)); !slices.Equal(got, access) {
		t.Errorf("obsolete without user access: %v", got)
	}
	if got := ids(klusterlet.Obsolete(on)); got != nil {
		t.Errorf("obsolete with user access: %v", got)
	}
	c := get[*appsv1.Deployment](t, off).Spec.Template.Spec.Containers[0]
	if slices.Contains(c.Args, "--user-access") || slices.Contains(c.Args, "--tunnels") {
		t.Errorf("arguments %v", c.Args)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	type options = v1alpha1.AgentOptions
	podTerm := func(term corev1.PodAffinityTerm) *corev1.Affinity {
		return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	}
	nodeRule := func(r corev1.NodeSelectorRequirement) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{r}}},
		}}}
	}
	for want, o := range map[string]options{
		`can't be set here; use the option for tunnels`: {Args: []string{"--tunnels"}},
		`agent.tunnels: Invalid value: true: it is for`: {Tunnels: true},

		`agent.image: Invalid value: "a b": an image has no spaces`:                                                       {Image: "a b"},
		`agent.image: Invalid value: "https://r/x": an image begins with its registry`:                                    {Image: "https://r/x"},
		`agent.imagePullPolicy: Unsupported value: "Sometimes"`:                                                           {ImagePullPolicy: "Sometimes"},
		`agent.imagePullSecrets[0].name: Invalid value: "A"`:                                                              {ImagePullSecrets: []corev1.LocalObjectReference{{Name: "A"}}},
		`agent.imagePullSecrets[1].name: Duplicate value: "a"`:                                                            {ImagePullSecrets: []corev1.LocalObjectReference{{Name: "a"}, {Name: "a"}}},
		`agent.namespace: Invalid value: "kube-system": the agent's namespace is removed`:                                 {Namespace: "kube-system"},
		`agent.namespace: Invalid value: "A_b": it has to be the name of a namespace`:                                     {Namespace: "A_b"},
		`agent.labels: Invalid value: "a b"`:                                                                              {Labels: map[string]string{"x": "a b"}},
		`agent.labels[app]: Invalid value: "mine": the agent's pods are found by this label`:                              {Labels: map[string]string{"app": "mine"}},
		`agent.annotations: Invalid value: "a b"`:                                                                         {Annotations: map[string]string{"a b": ""}},
		`agent.env[0].name: Invalid value: "1 A"`:                                                                         {Env: []v1alpha1.EnvVar{{Name: "1 A"}}},
		`agent.env[1].name: Duplicate value: "A"`:                                                                         {Env: []v1alpha1.EnvVar{{Name: "A"}, {Name: "A"}}},
		`the value of A has a NUL character`:                                                                              {Env: []v1alpha1.EnvVar{{Name: "A", Value: "\x00"}}},
		`the value of HTTPS_PROXY has the scheme "ftp"`:                                                                   {Env: []v1alpha1.EnvVar{{Name: "HTTPS_PROXY", Value: "ftp://p"}}},
		`the value of https_proxy is not a URL`:                                                                           {Env: []v1alpha1.EnvVar{{Name: "https_proxy", Value: "http://p:x"}}},
		`agent.args[0]: Invalid value: "--cluster-name=x": the flag --cluster-name is set for the agent`:                  {Args: []string{"--cluster-name=x"}},
		`agent.args[1]: Invalid value: "--namespace": the flag --namespace`:                                               {Args: []string{"-v=2", "--namespace", "x"}},
		`the flag --client-id is set for the agent and can't be set here; the agent registers by the name of the cluster`: {Args: []string{"--client-id=x"}},
		`the flag --registration-label is set for the agent and can't be set here`:                                        {Args: []string{"--registration-label=a=b"}},
		`the flag --user-access is set for the agent and can't be set here; use the option for user access`:               {Args: []string{"--user-access"}},
		`agent.args[0]: Invalid value: "--": it ends the flags`:                                                           {Args: []string{"--"}},
		`agent.args[0]: Invalid value: "": an argument can't be empty`:                                                    {Args: []string{""}},
		`agent.nodeSelector: Invalid value: "a b"`:                                                                        {NodeSelector: map[string]string{"x": "a b"}},
		`agent.tolerations[0].operator: Invalid value: "": without a key the operator has to be Exists`:                   {Tolerations: []corev1.Toleration{{}}},
		`agent.tolerations[0].operator: Unsupported value: "In"`:                                                          {Tolerations: []corev1.Toleration{{Key: "a", Operator: "In"}}},
		`agent.tolerations[0].value: Invalid value: "v": the operator Exists takes no value`:                              {Tolerations: []corev1.Toleration{{Key: "a", Operator: "Exists", Value: "v"}}},
		`agent.tolerations[0].effect: Unsupported value: "No"`:                                                            {Tolerations: []corev1.Toleration{{Key: "a", Effect: "No"}}},
		`agent.tolerations[0].effect: Invalid value: "": tolerationSeconds only works with the effect NoExecute`:          {Tolerations: []corev1.Toleration{{Key: "a", TolerationSeconds: ptr.To[int64](1)}}},
		`agent.resources.requests[cpu]: Invalid value: "2": it is more than the limit of 1`:                               {Resources: &corev1.ResourceRequirements{Limits: quantities("cpu", "1"), Requests: quantities("cpu", "2")}},
		`agent.resources.limits[memory]: Invalid value: "-1": it can't be less than 0`:                                    {Resources: &corev1.ResourceRequirements{Limits: quantities("memory", "-1")}},
		`agent.resources.limits[memroy]: Invalid value: "memroy": it is not a resource of containers`:                     {Resources: &corev1.ResourceRequirements{Limits: quantities("memroy", "1")}},
		`agent.resources.claims: Invalid value: 1`:                                                                        {Resources: &corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "x"}}}},
		`agent.priorityClassName: Invalid value: "A"`:                                                                     {PriorityClassName: "A"},
		`podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value`:                       {Affinity: podTerm(corev1.PodAffinityTerm{})},
		`namespaces[0]: Invalid value: "A"`:                                                                               {Affinity: podTerm(corev1.PodAffinityTerm{TopologyKey: "a", Namespaces: []string{"A"}})},
		`labelSelector.matchExpressions[0].operator: Invalid value: "Like"`:                                               {Affinity: podTerm(corev1.PodAffinityTerm{TopologyKey: "a", LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}})},
		`nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: ""`:                                        {Affinity: nodeRule(corev1.NodeSelectorRequirement{Key: "a"})},
		`matchExpressions[0].values: Required value: the operator In needs values`:                                        {Affinity: nodeRule(corev1.NodeSelectorRequirement{Key: "a", Operator: "In"})},
		`matchExpressions[0].values: Forbidden: the operator Exists takes no values`:                                      {Affinity: nodeRule(corev1.NodeSelectorRequirement{Key: "a", Operator: "Exists", Values: []string{"b"}})},
		`matchExpressions[0].values: Required value: the operator Gt needs one value`:                                     {Affinity: nodeRule(corev1.NodeSelectorRequirement{Key: "a", Operator: "Gt"})},
		`preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: it has to be between 1 and 100`:     {Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{}}}}},
		`nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value`:                   {Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}},
	} {
		problems := klusterlet.Validate(o, field.NewPath("agent"))
		if len(problems) == 0 || !strings.Contains(problems.ToAggregate().Error(), want) {
			t.Errorf("%+v\ngot  %v\nwant %s", o, problems, want)
		}
	}
}

// A proxy's address may hold a password, so messages don't repeat it.
func TestMessagesKeepProxiesToThemselves(t *testing.T) {
	problems := klusterlet.Validate(v1alpha1.AgentOptions{Env: []v1alpha1.EnvVar{{Name: "HTTPS_PROXY", Value: "ftp://user:hunter2@p"}}}, nil)
	if len(problems) != 1 || strings.Contains(problems[0].Error(), "hunter2") {
		t.Errorf("got %v", problems)
	}
}

func quantities(name corev1.ResourceName, quantity string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(quantity)}
}

// What is installed is taken over as the options that rendered it.
func TestOptionsOfAnInstalledAgent(t *testing.T) {
	proxied := v1alpha1.AgentOptions{Namespace: "agents", Env: []v1alpha1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://p:1"}, {Name: "NO_PROXY", Value: ".corp"}}}
	alone := v1alpha1.AgentOptions{Namespace: "agents", Env: []v1alpha1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://p:1"}}}
	for name, o := range map[string]v1alpha1.AgentOptions{
		"everything": everything(), "nothing": {Namespace: "agents"}, "a proxy with exemptions": proxied, "a proxy alone": alone,
	} {
		d := get[*appsv1.Deployment](t, klusterlet.Options{ClusterName: "c1", AgentOptions: o})
		c := &d.Spec.Template.Spec.Containers[0]
		if c.ImagePullPolicy == "" {
			c.ImagePullPolicy = corev1.PullIfNotPresent // as an API server fills it in
		}
		metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, "kubectl.kubernetes.io/restartedAt", "now")
		if got := klusterlet.OptionsOf(d); !reflect.DeepEqual(got, o) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, o)
		}
		if klusterlet.Serves(d) != "c1" {
			t.Errorf("it serves %q", klusterlet.Serves(d))
		}
	}
}
