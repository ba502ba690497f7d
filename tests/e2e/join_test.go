package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

// side is the hub or the managed cluster, as its administrator sees it.
type side struct {
	client.Client
	server string
	ca     []byte
}

func admin(t *testing.T, m fleet.Member) side {
	t.Helper()
	content, err := os.ReadFile(m.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: api.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return side{c, config.Host, config.CAData}
}

// join accepts the cluster on the hub and installs the agent in it, which is
// all that it takes.
func join(t *testing.T, hub, managed side, name, image string) {
	t.Helper()
	bootstrap := accept(t, hub, name, fmt.Sprintf("e%05d", crc32.ChecksumIEEE([]byte(name))%100_000))
	for _, o := range klusterlet.Render(klusterlet.Options{ClusterName: name, AgentOptions: v1alpha1.AgentOptions{Image: image, UserAccess: true}, BootstrapKubeconfig: bootstrap}) {
		create(t, managed, o)
	}
	hasJoined(t, hub, name, func() string { return "the agent's pods: " + agentPods(t.Context(), managed) })
}

// accept accepts the cluster on the hub, and returns a bootstrap kubeconfig for its agent
// with a token of that ID.
func accept(t *testing.T, hub side, name, id string) []byte {
	t.Helper()
	create(t, hub, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}})
	const secret = "0123456789abcdef"
	create(t, hub, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
			"auth-extra-groups": cluster.BoundBootstrapGroup(name),
			"expiration":        time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		},
	})
	bootstrap, err := kubeconfig.Config{Cluster: "hub", User: "bootstrap", Server: hub.server, CAData: hub.ca, Token: id + "." + secret}.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return bootstrap
}

// hasJoined waits until the cluster has joined. agent says how its agent fares.
func hasJoined(t *testing.T, hub side, name string, agent func() string) {
	t.Helper()
	testkit.EventuallyThat(t, "the cluster joins and is available", func() error {
		c := &clusterv1.ManagedCluster{}
		if err := hub.Get(t.Context(), client.ObjectKey{Name: name}, c); err != nil {
			return err
		}
		for _, condition := range []string{cluster.ConditionHubAccepted, cluster.ConditionJoined, cluster.ConditionAvailable} {
			if !meta.IsStatusConditionTrue(c.Status.Conditions, condition) {
				return fmt.Errorf("%s is not True: %+v\n%s", condition, c.Status.Conditions, agent())
			}
		}
		if c.Status.Version.Kubernetes == "" {
			return fmt.Errorf("the version is not reported: %+v", c.Status)
		}
		return nil
	})
}

func create(t *testing.T, s side, o client.Object) {
	t.Helper()
	if err := s.Create(t.Context(), o); err != nil {
		t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

// agentPods says how the agent's pods fare, for a failure's message.
func agentPods(ctx context.Context, managed side) string {
	pods := &corev1.PodList{}
	if err := managed.List(ctx, pods, client.InNamespace(cluster.AgentNamespace)); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%d", len(pods.Items))
	for _, p := range pods.Items {
		text += fmt.Sprintf("\n%s %s %+v", p.Name, p.Status.Phase, p.Status.ContainerStatuses)
	}
	return text
}

// runWork sends a namespace with a deployment to the cluster, waits until it is
// available there, and takes it back.
func runWork(t *testing.T, hub, managed side, name, image string) {
	t.Helper()
	labels := map[string]string{"app": "hello"}
	namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "hello"}}
	deployment := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "hello", Name: "hello"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				// Any program that stays would do; this image is there already.
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "hello", Image: image, Command: []string{"/muster", "hub", "--data-dir=/data/hub", "--secure-port=0"},
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					}},
					Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			},
		},
	}
	sent := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "hello"}}
	for _, o := range []any{namespace, deployment} {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		sent.Spec.Workload.Manifests = append(sent.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	create(t, hub, sent)
	testkit.EventuallyThat(t, "the work is applied and available", func() error {
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(sent), sent); err != nil {
			return err
		}
		for _, condition := range []string{work.ConditionApplied, work.ConditionAvailable} {
			if !meta.IsStatusConditionTrue(sent.Status.Conditions, condition) {
				return fmt.Errorf("%s is not True: %+v", condition, sent.Status.Conditions)
			}
		}
		return managed.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)
	})
	if err := hub.Delete(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	testkit.EventuallyThat(t, "the work goes, and what it made", func() error {
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(sent), sent); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the work is there: %v", err)
		}
		if err := managed.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace); !apierrors.IsNotFound(err) {
			return fmt.Errorf("its namespace is there: %v", err)
		}
		return nil
	})
}
