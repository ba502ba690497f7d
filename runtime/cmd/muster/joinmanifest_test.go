package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

func TestJoinManifestOptions(t *testing.T) {
	for name, x := range map[string]struct {
		j    joinManifest
		want string
	}{
		"nothing":            {joinManifest{}, ""},
		"a client ID":        {joinManifest{clientID: "s17", labels: []string{"site=17"}}, ""},
		"both":               {joinManifest{clientID: "s17", cluster: "a"}, "exclude each other"},
		"no client ID":       {joinManifest{clientID: "a b"}, "--client-id: "},
		"a reserved name":    {joinManifest{cluster: "kube-system"}, "--cluster: "},
		"labels with a name": {joinManifest{cluster: "a", labels: []string{"b=c"}}, "has no effect"},
		"no value":           {joinManifest{labels: []string{"b"}}, "write KEY=VALUE"},
		"a reserved label":   {joinManifest{labels: []string{"muster-fleet.io/a=b"}}, "may not choose"},
		"a short life":       {joinManifest{ttl: time.Second}, "1m at least"},
	} {
		if x.j.ttl == 0 {
			x.j.ttl = time.Hour
		}
		err := x.j.validate()
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}

func TestJoinManifestToken(t *testing.T) {
	j := joinManifest{clientID: "s17", labels: []string{"site=17"}}
	secret, err := j.token(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	testkit.Must(t, err)
	if a := secret.Annotations; a[cluster.TokenClientIDsAnnotation] != "s17" || a[cluster.TokenAllowedLabelsAnnotation] != "site" {
		t.Errorf("annotations %v", a)
	}
	if got := bootstraptoken.Parse(secret); got.Groups != cluster.BootstrapGroup || string(secret.Data["expiration"]) != "2026-01-01T12:00:00Z" {
		t.Errorf("the token is %+v", got)
	}
	j = joinManifest{cluster: "paris"}
	secret, err = j.token(time.Now())
	testkit.Must(t, err)
	if got := bootstraptoken.Parse(secret).Groups; got != cluster.BoundBootstrapGroup("paris") {
		t.Errorf("the group is %s", got)
	}
}

// The flags are the options of muster_klusterlet, and refused where it refuses them.
func TestJoinManifestAgentOptions(t *testing.T) {
	parse := func(args ...string) (v1alpha1.AgentOptions, error) {
		var a agentOptions
		f := pflag.NewFlagSet("x", pflag.ContinueOnError)
		a.add(f)
		if err := f.Parse(args); err != nil {
			return v1alpha1.AgentOptions{}, err
		}
		return a.options()
	}
	affinity := filepath.Join(t.TempDir(), "affinity.yaml")
	testkit.Must(t, os.WriteFile(affinity, []byte("nodeAffinity: {}\n"), 0o600))
	got, err := parse("--image=a/b:1", "--image-pull-policy=Never", "--image-pull-secrets=x,y", "--namespace=agents", "--labels=a=b,c=d", "--annotations=e=f",
		"--env=NAME=a,b=c", "--proxy=http://p:3128", "--no-proxy=.internal,10.0.0.0/8", "--args=-v=2", "--node-selector=pool=x", "--host-network", "--priority-class-name=high",
		"--user-access", "--tunnels",
		"--tolerations=dedicated=x:NoSchedule", "--tolerations=a/b:NoExecute@5m", "--tolerations=*", "--tolerations=key",
		"--resources=requests.cpu=50m,limits.memory=1Gi", "--affinity="+affinity)
	testkit.Must(t, err)
	want := v1alpha1.AgentOptions{
		Image: "a/b:1", ImagePullPolicy: corev1.PullNever, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "x"}, {Name: "y"}}, Namespace: "agents",
		Labels: map[string]string{"a": "b", "c": "d"}, Annotations: map[string]string{"e": "f"}, Args: []string{"-v=2"},
		Env: []v1alpha1.EnvVar{{Name: "HTTP_PROXY", Value: "http://p:3128"}, {Name: "HTTPS_PROXY", Value: "http://p:3128"},
			{Name: "NO_PROXY", Value: ".internal,10.0.0.0/8"}, {Name: "NAME", Value: "a,b=c"}},
		NodeSelector: map[string]string{"pool": "x"}, HostNetwork: true, PriorityClassName: "high",
		UserAccess: true, Tunnels: true,
		Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: "Equal", Value: "x", Effect: "NoSchedule"},
			{Key: "a/b", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To(int64(300))}, {Operator: "Exists"}, {Key: "key", Operator: "Exists"}},
		Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("50m")}, Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}},
		Affinity:  &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
	}
	if !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	for args, want := range map[string]string{
		"--image=a b":                             `--image: Invalid value: "a b": an image has no spaces`,
		"--image-pull-policy=Sometimes":           `--image-pull-policy: Unsupported value: "Sometimes"`,
		"--image-pull-secrets=A":                  `--image-pull-secrets: [0].name: Invalid value: "A"`,
		"--namespace=kube-system":                 `--namespace: Invalid value: "kube-system"`,
		"--labels=app=x":                          "--labels: [app]: Invalid value",
		"--env=NAME":                              `--env "NAME" has no value: write NAME=VALUE`,
		"--env=1=x":                               `--env: [0].name: Invalid value: "1"`,
		"--env=A=1|--env=A=2":                     "--env gives A a second value",
		"--env=HTTPS_PROXY=x|--proxy=http://p:1":  "--env gives HTTPS_PROXY a second value",
		"--proxy=ftp://p":                         "--env: [0].value: Invalid value",
		"--args=--cluster-name=x":                 "--args: [0]: ",
		"--tolerations=a=b:Never":                 `--tolerations: [0].effect: Unsupported value: "Never"`,
		"--tolerations=:NoSchedule":               "it names no taint",
		"--tolerations=a@x":                       "a duration of whole seconds",
		"--resources=cpu=1":                       "--resources cpu=1: the name has to begin with requests. or limits.",
		"--resources=requests.cpu=much":           `"much" is no quantity`,
		"--resources=requests.cpu=2,limits.cpu=1": "--resources: ",
		"--affinity=/nowhere":                     "--affinity: ",
		"--priority-class-name=A":                 `--priority-class-name: Invalid value: "A"`,
	} {
		if _, err := parse(strings.Split(args, "|")...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
