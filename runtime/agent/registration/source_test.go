package registration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/fakewatch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func kubeconfigFor(host string) []byte {
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: b, contexts: [{name: b, context: {cluster: hub, user: u}}], clusters: [{name: hub, cluster: {server: "https://%s"}}], users: [{name: u, user: {token: t}}]}`, host)
}

// sources is a source with both places to read from.
type sources struct {
	*source
	t     *testing.T
	local client.Client
}

func newSources(t *testing.T, file, secret string) *sources {
	t.Helper()
	c, open := fakewatch.Client(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build())
	m := mirror.New(mirror.Options[*corev1.Secret]{Client: c, List: &corev1.SecretList{}})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	s := &sources{source: newSource(path, "ns", m), t: t, local: c}
	if file != "" {
		s.writeFile(file)
	}
	if secret != "" {
		if err := c.Create(t.Context(), s.object(secret)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	<-s.changed
	fakewatch.Await(t, open, 1)
	return s
}

func (s *sources) object(host string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: cluster.BootstrapSecret}, Data: map[string][]byte{"kubeconfig": kubeconfigFor(host)}}
}

func (s *sources) writeFile(host string) {
	s.t.Helper()
	if err := os.WriteFile(s.file, kubeconfigFor(host), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sources) changeSecret(host string) {
	s.t.Helper()
	if err := s.local.Update(s.t.Context(), s.object(host)); err != nil {
		s.t.Fatal(err)
	}
	<-s.changed
}

func (s *sources) expect(host string) {
	s.t.Helper()
	b, err := s.current()
	if err != nil {
		s.t.Fatal(err)
	}
	if b.Endpoint.Server != "https://"+host {
		s.t.Errorf("leads to %s, want https://%s", b.Endpoint.Server, host)
	}
}

func TestFileComesFirst(t *testing.T) {
	s := newSources(t, "file", "secret")
	s.expect("file")
	s.writeFile("file2")
	s.expect("file2")
}

func TestSecretTakesThePlaceOfAMissingFile(t *testing.T) {
	newSources(t, "", "secret").expect("secret")
}

func TestChangedSecretComesBeforeTheFileThatFollowsLater(t *testing.T) {
	s := newSources(t, "one", "one")
	s.expect("one")
	s.changeSecret("two")
	s.expect("two")
}

func TestDeletedSecretIsNoChange(t *testing.T) {
	s := newSources(t, "one", "one")
	s.expect("one")
	if err := s.local.Delete(t.Context(), s.object("one")); err != nil {
		t.Fatal(err)
	}
	<-s.changed
	s.expect("one")
}

func TestNoBootstrapKubeconfigAnywhere(t *testing.T) {
	_, err := newSources(t, "", "").current()
	if !errors.Is(err, errNoBootstrap) || !strings.Contains(err.Error(), "ns/bootstrap-hub-kubeconfig") {
		t.Errorf("got %v, want that neither place has one, and what to do", err)
	}
}

func TestBadBootstrapKubeconfigIsNamedByItsPlace(t *testing.T) {
	s := newSources(t, "", "")
	if err := os.WriteFile(s.file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.current(); err == nil || !strings.Contains(err.Error(), s.file) || strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v, want an error with the file's name and without its content", err)
	}
}
