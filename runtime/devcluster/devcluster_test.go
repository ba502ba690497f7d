package devcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

// shared is the dev cluster of the tests that can live beside others; its
// agents are played by launches.
var (
	shared   *Cluster
	launches launchpad
)

func TestMain(m *testing.M) {
	logging.Setup(context.Background(), io.Discard, 0, false)
	os.Exit(func() int {
		path, err := os.MkdirTemp("", "muster-devcluster-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(path)
		shared, err = Start(context.Background(), Options{DataDir: path, Name: "test", RunAgent: launches.run})
		if err != nil {
			panic(err)
		}
		code := m.Run()
		if err := shared.Stop(); err != nil {
			panic(err)
		}
		return code
	}())
}

// launch is one start of an agent, as the test that waits for it sees it.
type launch struct {
	args   []string
	config *rest.Config
	ctx    context.Context
	ready  func()
	end    chan error // what it is sent ends the agent
}

// unreadyAgents is the namespace whose agents are ready only when their test says so.
const unreadyAgents = "agent-waits"

// launchpad hands each agent that starts to the test of its namespace.
type launchpad struct {
	mu   sync.Mutex
	pads map[string]chan launch
}

func (l *launchpad) pad(namespace string) chan launch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pads == nil {
		l.pads = map[string]chan launch{}
	}
	if l.pads[namespace] == nil {
		l.pads[namespace] = make(chan launch, 16)
	}
	return l.pads[namespace]
}

func (l *launchpad) run(ctx context.Context, pod AgentPod) error {
	one := launch{config: pod.Config, ctx: ctx, ready: pod.Ready, end: make(chan error, 1)}
	if flagValue(pod.Args, "namespace") != unreadyAgents {
		pod.Ready()
	}
	for _, a := range pod.Args {
		name, value, _ := strings.Cut(a, "=")
		if file, err := pod.File(value); err == nil {
			a = name + "=" + file
		}
		one.args = append(one.args, a)
	}
	l.pad(flagValue(pod.Args, "namespace")) <- one
	select {
	case <-ctx.Done():
		return nil
	case err := <-one.end:
		return err
	}
}

func (l *launchpad) next(t *testing.T, namespace string) launch {
	t.Helper()
	select {
	case one := <-l.pad(namespace):
		return one
	case <-time.After(30 * time.Second):
		t.Fatal("no agent was started")
		return launch{}
	}
}

func flagValue(args []string, name string) string {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return v
		}
	}
	return ""
}

func adminOf(t *testing.T, c *Cluster) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func newNamespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func podTemplate(change ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/web:1"}}},
	}
	for _, c := range change {
		c(&template)
	}
	return template
}

func newDeployment(t *testing.T, client kubernetes.Interface, namespace string, template corev1.PodTemplateSpec) {
	t.Helper()
	_, err := client.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](3),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: template,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func podsOf(t *testing.T, client kubernetes.Interface, namespace string) []corev1.Pod {
	t.Helper()
	list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func availableReplicas(ctx context.Context, client kubernetes.Interface, namespace string, want int32) error {
	d, err := client.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if d.Status.AvailableReplicas != want || d.Status.ObservedGeneration != d.Generation {
		return fmt.Errorf("%d available, want %d: %+v", d.Status.AvailableReplicas, want, d.Status)
	}
	return nil
}

func TestDeploymentBecomesAvailable(t *testing.T) {
	client := adminOf(t, shared)
	ns := newNamespace(t, client)
	newDeployment(t, client, ns, podTemplate())
	testkit.EventuallyThat(t, "all replicas are available", func() error { return availableReplicas(t.Context(), client, ns, 3) })
	for _, p := range podsOf(t, client, ns) {
		if p.Spec.NodeName == "" || p.Status.PodIP == "" || p.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s: node %q, IP %q, phase %s", p.Name, p.Spec.NodeName, p.Status.PodIP, p.Status.Phase)
		}
	}
}

func TestDeletedPodGoesAndIsReplaced(t *testing.T) {
	client := adminOf(t, shared)
	ns := newNamespace(t, client)
	newDeployment(t, client, ns, podTemplate())
	testkit.EventuallyThat(t, "all replicas are available", func() error { return availableReplicas(t.Context(), client, ns, 3) })
	victim := podsOf(t, client, ns)[0].Name
	if err := client.CoreV1().Pods(ns).Delete(t.Context(), victim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.EventuallyThat(t, "the deleted pod is replaced", func() error {
		if _, err := client.CoreV1().Pods(ns).Get(t.Context(), victim, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return availableReplicas(t.Context(), client, ns, 3)
	})
}

func TestNamespaceWithPodsGoes(t *testing.T) {
	client := adminOf(t, shared)
	ns := newNamespace(t, client)
	newDeployment(t, client, ns, podTemplate())
	testkit.EventuallyThat(t, "all replicas are available", func() error { return availableReplicas(t.Context(), client, ns, 3) })
	if err := client.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.EventuallyThat(t, "the namespace goes", func() error {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
}

func TestPodThatIsToFailIsNeverAvailable(t *testing.T) {
	client := adminOf(t, shared)
	ns := newNamespace(t, client)
	newDeployment(t, client, ns, podTemplate(func(p *corev1.PodTemplateSpec) {
		p.Annotations = map[string]string{FailAnnotation: "cannot pull"}
	}))
	testkit.EventuallyThat(t, "all pods say why they fail", func() error {
		pods := podsOf(t, client, ns)
		for _, p := range pods {
			if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil || p.Status.ContainerStatuses[0].State.Waiting.Message != "cannot pull" {
				return fmt.Errorf("pod %s: %+v", p.Name, p.Status.ContainerStatuses)
			}
		}
		if len(pods) != 3 {
			return fmt.Errorf("%d pods", len(pods))
		}
		return availableReplicas(t.Context(), client, ns, 0)
	})
}

func TestJobEnds(t *testing.T) {
	client := adminOf(t, shared)
	ns := newNamespace(t, client)
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        batchv1.JobConditionType
	}{
		"good": {nil, batchv1.JobComplete},
		"bad":  {map[string]string{FailAnnotation: "exit 1"}, batchv1.JobFailed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.BatchV1().Jobs(ns).Create(t.Context(), &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: batchv1.JobSpec{
					BackoffLimit: ptr.To[int32](0),
					Template: podTemplate(func(p *corev1.PodTemplateSpec) {
						p.Spec.RestartPolicy, p.Annotations = corev1.RestartPolicyNever, tc.annotations
					}),
				},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			testkit.EventuallyThat(t, "the job is "+string(tc.want), func() error {
				job, err := client.BatchV1().Jobs(ns).Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				for _, c := range job.Status.Conditions {
					if c.Type == tc.want && c.Status == corev1.ConditionTrue {
						return nil
					}
				}
				return fmt.Errorf("status %+v", job.Status)
			})
		})
	}
}

func TestDataDirectoryIsGivenBack(t *testing.T) {
	dir := t.TempDir()
	c, err := Start(t.Context(), Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if datadir.Owner(dir) != os.Getpid() {
		t.Error("a running cluster does not hold its data directory")
	}
	if _, err := Start(t.Context(), Options{DataDir: dir}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second cluster on the directory: got %v", err)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if datadir.Owner(dir) != 0 {
		t.Error("a stopped cluster still holds its data directory")
	}
}

func TestClusterThatIsStoppedBeforeItIsReadyStops(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	listening := make(chan struct{})
	go func() {
		defer cancel()
		for { // the API server has begun to start
			if _, err := os.Stat(filepath.Join(dir, "admin.kubeconfig")); err == nil {
				close(listening)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, err := Start(ctx, Options{DataDir: dir})
	<-listening
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if datadir.Owner(dir) != 0 {
		t.Error("it still holds its data directory")
	}
}

func TestBadOptionsAreRefusedInOneLine(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    Options
		want string
	}{
		{"no data directory", Options{}, "--data-dir"},
		{"a name that no certificate can hold", Options{DataDir: t.TempDir(), Name: "Mein Würfel"}, "--name"},
		{"no port", Options{DataDir: t.TempDir(), SecurePort: -1}, "--secure-port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Start(t.Context(), tc.o)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDefaultName(t *testing.T) {
	for dir, want := range map[string]string{
		"/x/cluster1":  "cluster1",
		"/x/cluster1/": "cluster1",
		"/x/My Data":   "devcluster",
		"/x/.muster":   "devcluster",
		"/":            "devcluster",
	} {
		if got := DefaultName(dir); got != want {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
}

func readFolder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(content)
	}
	return files
}
