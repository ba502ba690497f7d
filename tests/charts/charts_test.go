// Package charts tests the Helm charts and the unit in deploy: what they render, and that a
// cluster takes it.
package charts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

const (
	root      = "../.."
	namespace = "muster"
)

var (
	helm, muster string
	update       = flag.Bool("update", false, "write the plain manifests")
)

func TestMain(m *testing.M) {
	flag.Parse()
	logging.Setup(context.Background(), io.Discard, 0, false)
	dir, err := os.MkdirTemp("", "muster-charts-")
	if err == nil {
		helm = filepath.Join(dir, "helm")
		build := exec.Command(
			"go",
			"build",
			"-C",
			root,
			"-modfile=hack/tools/go.mod",
			"-o",
			helm,
			"helm.sh/helm/v4/cmd/helm",
		)
		build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		err = build.Run()
	}
	if err == nil {
		muster, err = (&testhub.Builder{}).Path(dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "build helm and muster:", err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func runHelm(args ...string) (string, error) {
	cmd := exec.Command(helm, args...)
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+filepath.Dir(helm)) // not the user's
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, problems.String())
	}
	return out.String(), err
}

// render renders a chart as a release, with values, and returns its objects.
func render(chart, release string, values map[string]any) ([]*unstructured.Unstructured, error) {
	file, err := os.CreateTemp("", "values-*.json")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if err := errors.Join(json.NewEncoder(file).Encode(values), file.Close()); err != nil {
		return nil, err
	}
	text, err := runHelm("template", release, filepath.Join(root, "deploy", "charts", chart),
		"--namespace", namespace, "--values", file.Name(), "--kube-version", "1.37")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, text)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

type values = map[string]any

// hubs are the ways to run a hub that the guide has, by the names of their releases.
var hubs = map[string]values{
	"one": {"externalURL": "https://hub.example.org:6443"},
	"one with everything": {
		"externalURL": "https://hub.example.org", "additionalExternalURLs": []string{"https://old.example.org:6443"},
		"service": values{"type": "LoadBalancer", "port": 443, "annotations": values{"a": "b"}},
		"ingress": values{
			"enabled":     true,
			"className":   "nginx",
			"annotations": values{"nginx.ingress.kubernetes.io/ssl-passthrough": "true"},
		},
		"networkPolicy": values{"enabled": true, "from": []any{values{"ipBlock": values{"cidr": "10.0.0.0/8"}}}},
		"backup": values{
			"enabled":    true,
			"recipients": []string{"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"},
		},
		"servingCertificate": values{"secretName": "hub-tls", "hasAuthority": true},
		"files":              values{"secretName": "hub-files"},
		"extraArgs": []string{
			"--feature-gates=ClusterImport=true", "--authentication-config=/etc/muster/authentication.yaml",
			"--web-page-oidc-issuer-url=https://login.example.org", "--web-page-oidc-client-id=muster",
			"--web-page-oidc-client-secret-file=/etc/muster/web-page-secret",
		}, "imagePullSecrets": []any{values{"name": "registry"}},
		"nodeSelector": values{
			"pool": "system",
		}, "tolerations": []any{values{"key": "dedicated", "operator": "Exists"}},
		"storage": values{"className": "fast"}, "podAnnotations": values{"a": "b"}, "podLabels": values{"c": "d"},
	},
	"three": {
		"externalURL": "https://hub.example.org:6443", "replicas": 3,
		"etcd": values{
			"servers":    []string{"https://etcd-0:2379", "https://etcd-1:2379"},
			"secretName": "etcd-client",
		},
		"replicaKey":    values{"secretName": "replica-key"},
		"networkPolicy": values{"enabled": true},
	},
}

// A cluster takes what the hub's chart renders, in a namespace that holds pods to the
// standard "restricted", and the hub knows all flags.
func TestHubChart(t *testing.T) {
	if out, err := runHelm("lint", "--strict", filepath.Join(root, "deploy", "charts", "muster-hub"),
		"--set", "externalURL=https://hub.example.org:6443"); err != nil {
		t.Errorf("helm lint: %v\n%s", err, out)
	}
	cluster := newCluster(t)
	for name, v := range hubs {
		t.Run(name, func(t *testing.T) {
			objects, err := render("muster-hub", strings.ReplaceAll(name, " ", "-"), v)
			testkit.Must(t, err)
			d := cluster.apply(
				t,
				objects,
				func(d *appsv1.Deployment) bool { return d.Status.ReadyReplicas == *d.Spec.Replicas },
			)
			args := append(d.Spec.Template.Spec.Containers[0].Args, "--help")
			if out, err := exec.Command(muster, args...).CombinedOutput(); err != nil {
				t.Errorf("muster %s: %v\n%s", strings.Join(args, " "), err, out)
			}
			testkit.Must(t, cluster.DeleteAllOf(t.Context(), d, client.InNamespace(namespace)))
		})
	}
}

// The plain manifests are what the chart renders. With -update they are written.
func TestManifests(t *testing.T) {
	const file = root + "/deploy/manifests/muster-hub.yaml"
	text, err := runHelm("template", "muster-hub", root+"/deploy/charts/muster-hub", "--namespace", namespace,
		"--set", "externalURL=https://hub.example.org:6443", "--kube-version", "1.37")
	testkit.Must(t, err)
	text = "# A hub with a volume, as the chart in deploy/charts renders it, for the namespace muster. Put your own\n" +
		"# URL in place of https://hub.example.org:6443.\n" +
		strings.ReplaceAll(text, "managed-by: Helm", "managed-by: kubectl")
	if *update {
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o644)) //nolint:gosec // a document
		return
	}
	content, err := os.ReadFile(file)
	if err != nil || string(content) != text {
		t.Errorf("%v; deploy/manifests is not what the chart renders: run go test ./tests/charts -run TestManifests "+
			"-update", err)
	}
}

// What can't work together is refused, and a typo names the value.
func TestHubChartRefuses(t *testing.T) {
	etcd := values{"servers": []string{"https://e:2379"}}
	at := func(v values) values {
		v["externalURL"] = "https://hub.example.org:6443"
		return v
	}
	manager := values{"certManager": values{"enabled": true}}
	for want, v := range map[string]values{
		"externalURL is missing":                            {},
		"'/externalURL': 'hub.example.org' does not match":  {"externalURL": "hub.example.org"},
		"additional properties 'replica' not allowed":       at(values{"replica": 3}),
		"replicas is 3 and etcd.servers is empty":           at(values{"replicas": 3}),
		"etcd.servers is set without replicaKey.secretName": at(values{"etcd": etcd}),
		"replicaKey.secretName is set without etcd.servers": at(values{"replicaKey": values{"secretName": "x"}}),
		"backup.enabled is set without backup.recipients":   at(values{"backup": values{"enabled": true}}),
		"certManager.enabled is set without issuerRef.name": at(values{"servingCertificate": manager}),
		"serviceMonitor.enabled is set without tokenSecret": at(values{"serviceMonitor": values{"enabled": true}}),
		"'/extraArgs/0': 'feature-gates=A' does not match":  at(values{"extraArgs": []string{"feature-gates=A"}}),
		"backup.enabled is for a hub with an etcd of its own": at(values{
			"backup": values{"enabled": true}, "etcd": etcd, "replicaKey": values{"secretName": "x"},
		}),
	} {
		if _, err := render("muster-hub", "site", v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// The definitions of cert-manager and of the Prometheus operator are in no dev cluster, so
// what is for them is looked at by hand.
func TestHubChartIntegrations(t *testing.T) {
	objects, err := render("muster-hub", "site", values{
		"externalURL": "https://hub.example.org:6443",
		"servingCertificate": values{
			"certManager": values{
				"enabled":   true,
				"issuerRef": values{"name": "letsencrypt", "kind": "ClusterIssuer"},
			},
		},
		"serviceMonitor": values{"enabled": true, "tokenSecretName": "metrics"},
	})
	testkit.Must(t, err)
	got := map[string]string{}
	for _, o := range objects {
		content, err := json.Marshal(o.Object["spec"])
		testkit.Must(t, err)
		got[o.GetKind()] = string(content)
	}
	const secret = `"secretName":"site-muster-hub-tls"`
	for kind, want := range map[string][]string{
		"Certificate":    {secret, `"dnsNames":["hub.example.org"]`, `"kind":"ClusterIssuer"`},
		"ServiceMonitor": {`"credentials":{"key":"token","name":"metrics"}`, `"serverName":"hub.example.org"`},
		"Deployment":     {`"--tls-sni-cert-key=/certificate/tls.crt,/certificate/tls.key"`, secret},
	} {
		for _, w := range want {
			if !strings.Contains(got[kind], w) {
				t.Errorf("%s has no %s: %s", kind, w, got[kind])
			}
		}
	}
}

// The agent's chart installs what the other ways install, and a cluster takes it.
func TestAgentChart(t *testing.T) {
	if out, err := runHelm("lint", "--strict", filepath.Join(root, "deploy", "charts", "muster-agent")); err != nil {
		t.Errorf("helm lint: %v\n%s", err, out)
	}
	cluster := newCluster(t)
	options := func(o v1alpha1.AgentOptions) v1alpha1.AgentOptions {
		o.Namespace, o.Image = namespace, "ghcr.io/muster-fleet/muster:v0.1.0"
		return o
	}
	memory := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	for name, x := range map[string]struct {
		values  values
		options klusterlet.Options
	}{
		"a name": {
			values{"clusterName": "paris", "bootstrapKubeconfig": "a kubeconfig"},
			klusterlet.Options{
				ClusterName: "paris", BootstrapKubeconfig: []byte("a kubeconfig"),
				AgentOptions: options(v1alpha1.AgentOptions{}),
			},
		},
		"everything": {
			values{
				"clientID": "store-17", "userAccess": true, "hostNetwork": true, "extraArgs": []string{"-v=2"},
				"proxy": "http://proxy:3128", "noProxy": ".internal",
				"resources":         values{"limits": values{"memory": "1Gi"}},
				"nodeSelector":      values{"pool": "system"},
				"tolerations":       []any{values{"key": "dedicated", "operator": "Exists"}},
				"priorityClassName": "system-cluster-critical", "podAnnotations": values{"a": "b"},
				"imagePullSecrets": []any{values{"name": "registry"}}, "image": values{"pullPolicy": "Always"},
			},
			klusterlet.Options{ClientID: "store-17", AgentOptions: options(v1alpha1.AgentOptions{
				UserAccess: true, HostNetwork: true, Args: []string{"-v=2"},
				Env: []v1alpha1.EnvVar{
					{Name: "HTTP_PROXY", Value: "http://proxy:3128"}, {Name: "HTTPS_PROXY", Value: "http://proxy:3128"},
					{Name: "NO_PROXY", Value: ".internal"},
				},
				Resources:         &corev1.ResourceRequirements{Limits: memory},
				NodeSelector:      map[string]string{"pool": "system"},
				Tolerations:       []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
				PriorityClassName: "system-cluster-critical", Annotations: map[string]string{"a": "b"},
				ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, ImagePullPolicy: corev1.PullAlways,
			})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := render("muster-agent", "site", x.values)
			testkit.Must(t, err)
			got := map[string]runtime.Object{}
			for _, o := range objects {
				typed, err := scheme.Scheme.New(o.GroupVersionKind())
				testkit.Must(t, err)
				testkit.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed))
				got[o.GetKind()+" "+o.GetName()] = typed
			}
			for _, want := range klusterlet.Render(x.options) {
				key := want.GetObjectKind().GroupVersionKind().Kind + " " + want.GetName()
				if key == "Namespace "+namespace { // helm --create-namespace
					continue
				}
				if !equality.Semantic.DeepEqual(got[key], want) {
					a, _ := json.Marshal(got[key])
					b, _ := json.Marshal(want)
					t.Errorf("%s:\n%s, want\n%s", key, a, b)
				}
				delete(got, key)
			}
			for key := range got {
				t.Errorf("%s is installed by the chart alone", key)
			}
			if x.options.HostNetwork { // which the standard does not allow
				return
			}
			// It has no hub, so it does not get ready.
			d := cluster.apply(t, objects, func(d *appsv1.Deployment) bool { return d.Status.Replicas == 1 })
			testkit.Must(t, cluster.Delete(t.Context(), d))
		})
	}
	if _, err := render("muster-agent", "site", values{"clusterName": "a", "clientID": "b"}); err == nil ||
		!strings.Contains(err.Error(), "clusterName and clientID are both set") {
		t.Errorf("a name and a client ID: %v", err)
	}
}

// cluster is a dev cluster, as its administrator sees it.
type cluster struct{ client.Client }

func newCluster(t *testing.T) cluster {
	t.Helper()
	process, err := testhub.StartCluster(muster, t.TempDir())
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, process.Stop()) })
	config, err := clientcmd.BuildConfigFromFlags("", process.Kubeconfig)
	testkit.Must(t, err)
	c, err := client.New(config, client.Options{})
	testkit.Must(t, err)
	testkit.Must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}))
	return cluster{c}
}

// apply applies objects, and returns the deployment among them once it is as wanted.
func (c cluster) apply(
	t *testing.T, objects []*unstructured.Unstructured, wanted func(*appsv1.Deployment) bool,
) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			d.Namespace, d.Name = o.GetNamespace(), o.GetName()
		}
		//nolint:staticcheck // of rendered objects there are no typed configurations
		if err := c.Patch(t.Context(), o, client.Apply, client.FieldOwner("helm"), client.ForceOwnership); err != nil &&
			!meta.IsNoMatchError(err) {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	testkit.EventuallyThat(t, d.Name+" runs", func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if !wanted(d) {
			return fmt.Errorf("it has %+v", d.Status)
		}
		return nil
	})
	return d
}

// The unit names flags that the hub has, and systemd takes it where there is one.
func TestUnit(t *testing.T) {
	name := filepath.Join(root, "deploy", "systemd", "muster-hub.service")
	unit, err := os.ReadFile(name)
	testkit.Must(t, err)
	found := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/muster (hub .*) \$MUSTER_HUB_ARGS$`).FindSubmatch(unit)
	if found == nil {
		t.Fatalf("%s does not start a hub", name)
	}
	args := append(strings.Fields(string(found[1])), "--help")
	if out, err := exec.Command(muster, args...).CombinedOutput(); err != nil {
		t.Errorf("muster %s: %v\n%s", found[1], err, out)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here, so systemd is not asked about the unit: install systemd")
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", name).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}
