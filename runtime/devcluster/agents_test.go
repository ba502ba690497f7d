package devcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// install puts a klusterlet into a namespace of its own name in the cluster, as
// the Terraform provider does.
func install(t *testing.T, c *Cluster, namespace string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	apply, err := client.New(config, client.Options{Scheme: api.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range klusterlet.Render(klusterlet.Options{ClusterName: "c1", AgentOptions: v1alpha1.AgentOptions{Namespace: namespace}, BootstrapKubeconfig: []byte("first")}) {
		if err := client.IgnoreAlreadyExists(apply.Create(t.Context(), o)); err != nil {
			t.Fatal(err)
		}
	}
	return adminOf(t, c)
}

// agentPodIs waits until the one pod of the klusterlet is as check wants it.
func agentPodIs(t *testing.T, admin kubernetes.Interface, namespace, what string, check func(p corev1.Pod, c corev1.ContainerStatus) bool) corev1.Pod {
	t.Helper()
	var found corev1.Pod
	testkit.EventuallyThat(t, what, func() error {
		pods := podsOf(t, admin, namespace)
		if len(pods) != 1 || len(pods[0].Status.ContainerStatuses) != 1 {
			return fmt.Errorf("%d pods", len(pods))
		}
		found = pods[0]
		if !check(found, found.Status.ContainerStatuses[0]) {
			return fmt.Errorf("status %+v", found.Status.ContainerStatuses)
		}
		return nil
	})
	return found
}

func ready(_ corev1.Pod, c corev1.ContainerStatus) bool { return c.Ready }

func TestKlusterletStartsAnAgent(t *testing.T) {
	admin := install(t, shared, "agent-starts")
	one := launches.next(t, "agent-starts")
	agentPodIs(t, admin, "agent-starts", "the pod is ready", ready)

	t.Run("with its arguments", func(t *testing.T) {
		if !slices.Contains(one.args, "--cluster-name=c1") {
			t.Errorf("got %q", one.args)
		}
	})
	t.Run("with its files", func(t *testing.T) {
		content, err := os.ReadFile(flagValue(one.args, "bootstrap-kubeconfig"))
		if err != nil || string(content) != "first" {
			t.Errorf("bootstrap kubeconfig: got %q, %v", content, err)
		}
	})
	t.Run("as its service account, over the network", func(t *testing.T) {
		if one.config.Host != shared.URL || one.config.Transport != nil {
			t.Errorf("reaches %s", one.config.Host)
		}
		agent, err := kubernetes.NewForConfig(one.config)
		if err != nil {
			t.Fatal(err)
		}
		review, err := agent.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := "system:serviceaccount:agent-starts:" + klusterlet.ServiceAccount; review.Status.UserInfo.Username != want {
			t.Errorf("logged in as %s, want %s", review.Status.UserInfo.Username, want)
		}
	})
	t.Run("with the rights that it was given", func(t *testing.T) {
		agent, err := kubernetes.NewForConfig(one.config)
		if err != nil {
			t.Fatal(err)
		}
		testkit.EventuallyThat(t, "it may do what works need", func() error {
			_, err := agent.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			return err
		})
	})
	t.Run("whose files follow the Secret", func(t *testing.T) {
		secret, err := admin.CoreV1().Secrets("agent-starts").Get(t.Context(), cluster.BootstrapSecret, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		secret.Data = map[string][]byte{cluster.KubeconfigKey: []byte("second")}
		if _, err := admin.CoreV1().Secrets("agent-starts").Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		testkit.EventuallyThat(t, "the file changes", func() error {
			content, err := os.ReadFile(flagValue(one.args, "bootstrap-kubeconfig"))
			if err == nil && string(content) != "second" {
				err = fmt.Errorf("holds %q", content)
			}
			return err
		})
	})
}

// A pod of an agent that waits for its hub runs and is not ready, and an upgrade leaves
// the pod from before in place.
func TestPodIsReadyWhenItsAgentSaysSo(t *testing.T) {
	admin := install(t, shared, unreadyAgents)
	one := launches.next(t, unreadyAgents)
	first := agentPodIs(t, admin, unreadyAgents, "the pod runs", func(p corev1.Pod, c corev1.ContainerStatus) bool {
		return p.Status.Phase == corev1.PodRunning && c.State.Running != nil && !c.Ready
	})
	one.ready()
	agentPodIs(t, admin, unreadyAgents, "the pod is ready", ready)
	another := []byte(`{"spec":{"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
	if _, err := admin.AppsV1().Deployments(unreadyAgents).Patch(t.Context(), klusterlet.Name, types.MergePatchType, another, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	two := launches.next(t, unreadyAgents)
	if pods := podsOf(t, admin, unreadyAgents); len(pods) != 2 || one.ctx.Err() != nil {
		t.Errorf("there are %d pods while the new agent is not ready", len(pods))
	}
	two.ready()
	agentPodIs(t, admin, unreadyAgents, "the new pod is the only one", func(p corev1.Pod, c corev1.ContainerStatus) bool {
		return p.Name != first.Name && c.Ready
	})
}

func TestAgentThatEndsIsStartedAgainAndThePodSaysWhy(t *testing.T) {
	admin := install(t, shared, "agent-ends")
	one := launches.next(t, "agent-ends")
	agentPodIs(t, admin, "agent-ends", "the pod is ready", ready)
	one.end <- errors.New("the hub is not there")
	agentPodIs(t, admin, "agent-ends", "the pod says why", func(_ corev1.Pod, c corev1.ContainerStatus) bool {
		return !c.Ready && c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" && c.State.Waiting.Message == "the hub is not there"
	})
	launches.next(t, "agent-ends")
	agentPodIs(t, admin, "agent-ends", "the pod is ready again", func(_ corev1.Pod, c corev1.ContainerStatus) bool {
		return c.Ready && c.RestartCount == 1 && c.LastTerminationState.Terminated.Message == "the hub is not there"
	})
}

// barePod is a pod in a namespace of its own, and an agents that knows no other.
func barePod(t *testing.T, clk *clocktesting.FakeClock, run func(context.Context, AgentPod) error) (*agents, *corev1.Pod) {
	t.Helper()
	admin := adminOf(t, shared)
	ns := newNamespace(t, admin)
	var made *corev1.Pod
	testkit.EventuallyThat(t, "the pod is made", func() (err error) { // once the namespace's service account is there
		made, err = admin.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{klusterlet.AppLabel: klusterlet.Name}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "muster", Command: []string{"/muster", "agent"}}}},
		}, metav1.CreateOptions{})
		return err
	})
	a, err := newAgents(agentOptions{run: run, clock: clk, log: slog.New(slog.DiscardHandler), client: admin, dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	a.changed = func(types.NamespacedName) {}
	return a, made
}

func TestTokenIsRenewedBeforeItExpires(t *testing.T) {
	started := make(chan string, 1)
	clk := clocktesting.NewFakeClock(time.Now())
	a, made := barePod(t, clk, func(ctx context.Context, pod AgentPod) error {
		started <- pod.Config.BearerTokenFile
		<-ctx.Done()
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer a.wait()
	defer cancel()
	a.observe(ctx, made)
	file := <-started
	read := func() string {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	first := read()
	testkit.EventuallyThat(t, "the agent's life waits for the time to renew", func() error {
		if !clk.HasWaiters() {
			return errors.New("no timer")
		}
		return nil
	})
	clk.Step(40 * time.Minute)
	if read() != first {
		t.Error("renewed after two thirds of its life")
	}
	clk.Step(9 * time.Minute)
	testkit.EventuallyThat(t, "the token is another", func() error {
		if read() == first {
			return errors.New("the same")
		}
		return nil
	})
}

func TestAgentThatDoesNotEndHoldsUpNobody(t *testing.T) {
	started := make(chan struct{})
	release := make(chan struct{})
	defer close(release)
	clk := clocktesting.NewFakeClock(time.Now())
	a, made := barePod(t, clk, func(context.Context, AgentPod) error {
		close(started)
		<-release
		return nil
	})
	a.observe(t.Context(), made)
	<-started
	if !a.stopping(made.UID) {
		t.Fatal("it ended at once")
	}
	testkit.EventuallyThat(t, "it is left behind", func() error {
		clk.Step(stopTimeout)
		if a.stopping(made.UID) {
			return errors.New("still waited for")
		}
		return nil
	})
	a.wait()
}

func TestDeletedPodsAgentStops(t *testing.T) {
	admin := install(t, shared, "agent-stops")
	one := launches.next(t, "agent-stops")
	first := agentPodIs(t, admin, "agent-stops", "the pod is ready", ready)
	if err := admin.CoreV1().Pods("agent-stops").Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	<-one.ctx.Done()
	two := launches.next(t, "agent-stops")
	// The ReplicaSet replaces a pod that is being deleted, and does not wait until it is gone.
	testkit.EventuallyThat(t, "the first pod is gone", func() error {
		_, err := admin.CoreV1().Pods("agent-stops").Get(t.Context(), first.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the pod %s is still there: %v", first.Name, err)
		}
		return nil
	})
	if err := admin.AppsV1().Deployments("agent-stops").Delete(t.Context(), klusterlet.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	<-two.ctx.Done()
	files := flagValue(two.args, "bootstrap-kubeconfig")
	testkit.EventuallyThat(t, "the pod's files are removed", func() error {
		if _, err := os.Stat(files); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %v", files, err)
		}
		return nil
	})
}

func TestPodWaitsForItsSecret(t *testing.T) {
	admin := adminOf(t, shared)
	ns := newNamespace(t, admin)
	container := corev1.Container{
		Name: "agent", Image: "muster", Command: []string{"/muster", "agent", "--namespace=" + ns, "--file=/here/key"},
		VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/here"}},
	}
	testkit.EventuallyThat(t, "the pod is made", func() error { // once the namespace's service account is there
		_, err := admin.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{klusterlet.AppLabel: klusterlet.Name}},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{container},
				Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "late"}}}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	agentPodIs(t, admin, ns, "the pod says what it waits for", func(_ corev1.Pod, c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && strings.Contains(c.State.Waiting.Message, `secret "late" not found`)
	})
	if _, err := admin.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "late"}, StringData: map[string]string{"key": "x"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	one := launches.next(t, ns)
	if content, err := os.ReadFile(flagValue(one.args, "file")); err != nil || string(content) != "x" {
		t.Errorf("got %q, %v", content, err)
	}
}

func TestRestartedClusterStartsItsAgents(t *testing.T) {
	dir := t.TempDir()
	var pads launchpad
	stale := filepath.Join(dir, "pods", "gone", "token")
	if err := os.MkdirAll(filepath.Dir(stale), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		c, err := Start(t.Context(), Options{DataDir: dir, RunAgent: pads.run})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			install(t, c, "agent-again")
		}
		one := pads.next(t, "agent-again")
		agentPodIs(t, adminOf(t, c), "agent-again", "the pod is ready", ready)
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		if one.ctx.Err() == nil {
			t.Error("the cluster has stopped and its agent has not")
		}
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("credentials of an earlier process are still on the disk: %v", err)
	}
}
