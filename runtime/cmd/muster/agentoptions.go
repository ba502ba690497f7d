package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// agentOptions are the flags that say how the agent runs. They are called as the
// attributes of muster_klusterlet.
type agentOptions struct {
	image, pullPolicy, namespace, priorityClass, affinity, proxy, noProxy string
	pullSecrets, env, args, tolerations                                   []string
	labels, annotations, nodeSelector, resources                          map[string]string
	hostNetwork, userAccess, tunnels                                      bool
}

func (a *agentOptions) add(f *pflag.FlagSet) {
	f.StringVar(&a.image, "image", "", "image of the agent (default the one of this version)")
	f.StringVar(&a.pullPolicy, "image-pull-policy", "", "Always, IfNotPresent or Never (default Kubernetes' own)")
	f.StringSliceVar(&a.pullSecrets, "image-pull-secrets", nil, "Secrets in the agent's namespace with which the image is pulled")
	f.StringVar(&a.namespace, "namespace", "", "namespace of the agent (default open-cluster-management-agent)")
	f.StringToStringVar(&a.labels, "labels", nil, "labels of all objects of the agent, as KEY=VALUE,KEY=VALUE")
	f.StringToStringVar(&a.annotations, "annotations", nil, "annotations of the agent's pods, as KEY=VALUE,KEY=VALUE")
	f.StringArrayVar(&a.env, "env", nil, "environment variable of the agent, as NAME=VALUE; may be repeated")
	f.StringVar(&a.proxy, "proxy", "", "proxy by which the agent reaches the hub, as in http://proxy.example.com:3128: the variables HTTP_PROXY and HTTPS_PROXY")
	f.StringVar(&a.noProxy, "no-proxy", "", "what the agent reaches without the proxy: the variable NO_PROXY; its own cluster is added")
	f.StringArrayVar(&a.args, "args", nil, "further argument of \"muster agent\", such as -v=2; may be repeated")
	f.StringToStringVar(&a.nodeSelector, "node-selector", nil, "labels of the nodes that the agent runs on, as KEY=VALUE,KEY=VALUE")
	f.StringArrayVar(&a.tolerations, "tolerations", nil,
		"taint that the agent tolerates, as KEY=VALUE:EFFECT, KEY:EFFECT, KEY, or * for all, with @DURATION for how long; may be repeated")
	f.StringToStringVar(&a.resources, "resources", nil,
		"resources of the agent's container, as requests.cpu=50m,limits.memory=1Gi; nothing is added to them (default 10m CPU and 64Mi, at most 512Mi)")
	f.StringVar(&a.affinity, "affinity", "", "YAML file with the affinity of the agent's pods, as in a pod's spec")
	f.BoolVar(&a.hostNetwork, "host-network", false, "run the agent in the node's network")
	f.StringVar(&a.priorityClass, "priority-class-name", "", "PriorityClass of the agent's pods")
	f.BoolVar(&a.userAccess, "user-access", false, "let users of the hub have access to the cluster through logical clouds; gives the agent the right to approve client certificates")
	f.BoolVar(&a.tunnels, "tunnels", false,
		"with --user-access: take users to the cluster through the hub (muster access proxy)")
}

// options reads the flags, and checks them as Terraform and the hub check the same
// options.
func (a *agentOptions) options() (v1alpha1.AgentOptions, error) {
	o := v1alpha1.AgentOptions{
		Image: a.image, ImagePullPolicy: corev1.PullPolicy(a.pullPolicy), Namespace: a.namespace, Labels: a.labels, Annotations: a.annotations,
		Args: slices.Clone(a.args), NodeSelector: a.nodeSelector, HostNetwork: a.hostNetwork, PriorityClassName: a.priorityClass, UserAccess: a.userAccess,
		Tunnels: a.tunnels,
	}
	for _, name := range a.pullSecrets {
		o.ImagePullSecrets = append(o.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	var err error
	if o.Env, err = a.variables(); err != nil {
		return o, err
	}
	for _, text := range a.tolerations {
		t, err := parseToleration(text)
		if err != nil {
			return o, fmt.Errorf("--tolerations %q: %w", text, err)
		}
		o.Tolerations = append(o.Tolerations, t)
	}
	if o.Resources, err = parseResources(a.resources); err != nil {
		return o, err
	}
	if o.Affinity, err = readAffinity(a.affinity); err != nil {
		return o, err
	}
	for _, problem := range klusterlet.Validate(o, nil) {
		return o, explainOption(problem)
	}
	return o, nil
}

// variables are the environment variables, those of the proxy first.
func (a *agentOptions) variables() (env []v1alpha1.EnvVar, _ error) {
	if a.proxy != "" {
		env = append(env, v1alpha1.EnvVar{Name: "HTTP_PROXY", Value: a.proxy}, v1alpha1.EnvVar{Name: "HTTPS_PROXY", Value: a.proxy})
	}
	if a.noProxy != "" {
		env = append(env, v1alpha1.EnvVar{Name: "NO_PROXY", Value: a.noProxy})
	}
	for _, variable := range a.env {
		name, value, ok := strings.Cut(variable, "=")
		if !ok {
			return nil, fmt.Errorf("--env %q has no value: write NAME=VALUE", variable)
		}
		if slices.ContainsFunc(env, func(e v1alpha1.EnvVar) bool { return e.Name == name }) {
			return nil, fmt.Errorf("--env gives %s a second value: leave one out, of --proxy and --no-proxy, too", name)
		}
		env = append(env, v1alpha1.EnvVar{Name: name, Value: value})
	}
	return env, nil
}

// parseToleration reads KEY[=VALUE][:EFFECT][@DURATION].
func parseToleration(text string) (t corev1.Toleration, _ error) {
	rest, lasts, limited := strings.Cut(text, "@")
	if limited {
		d, err := time.ParseDuration(lasts)
		if err != nil || d < 0 || d%time.Second != 0 {
			return t, fmt.Errorf("after @ there has to be a duration of whole seconds, such as 5m")
		}
		t.TolerationSeconds = ptr.To(int64(d / time.Second))
	}
	rest, effect, _ := strings.Cut(rest, ":")
	t.Effect = corev1.TaintEffect(effect)
	key, value, equal := strings.Cut(rest, "=")
	switch {
	case equal:
		t.Key, t.Operator, t.Value = key, corev1.TolerationOpEqual, value
	case key == "*":
		t.Operator = corev1.TolerationOpExists
	case key == "":
		return t, fmt.Errorf("it names no taint: write KEY, KEY=VALUE or *, and :EFFECT after it")
	default:
		t.Key, t.Operator = key, corev1.TolerationOpExists
	}
	return t, nil
}

// parseResources reads requests.NAME and limits.NAME; nil is the agent's own.
func parseResources(given map[string]string) (*corev1.ResourceRequirements, error) {
	if len(given) == 0 {
		return nil, nil
	}
	out := &corev1.ResourceRequirements{}
	for key, text := range given {
		kind, name, _ := strings.Cut(key, ".")
		list := map[string]*corev1.ResourceList{"requests": &out.Requests, "limits": &out.Limits}[kind]
		if list == nil || name == "" {
			return nil, fmt.Errorf("--resources %s=%s: the name has to begin with requests. or limits., as in requests.cpu=50m", key, text)
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("--resources %s=%s: %q is no quantity: write one such as 50m or 64Mi", key, text, text)
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[corev1.ResourceName(name)] = quantity
	}
	return out, nil
}

func readAffinity(path string) (*corev1.Affinity, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--affinity: %w", err)
	}
	out := &corev1.Affinity{}
	if err := yaml.UnmarshalStrict(text, out); err != nil {
		return nil, fmt.Errorf("--affinity %s: it is no affinity in YAML, with nodeAffinity, podAffinity or podAntiAffinity: %w", path, err)
	}
	return out, nil
}

// explainOption says of a problem which flag it is in.
func explainOption(problem *field.Error) error {
	name, rest := problem.Field, ""
	if at := strings.IndexAny(name, ".["); at >= 0 {
		name, rest = name[:at], strings.TrimPrefix(name[at:], ".")+": "
	}
	var flag strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			flag.WriteByte('-')
		}
		flag.WriteRune(unicode.ToLower(r))
	}
	return fmt.Errorf("--%s: %s%s", flag.String(), rest, problem.ErrorBody())
}
