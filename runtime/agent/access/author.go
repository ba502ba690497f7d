package access

import (
	"context"
	"fmt"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// author is who the agent is in the managed cluster, as the API server writes it
// into the certificate requests that the agent makes. Nobody can write another name
// there, so it distinguishes the agent's own requests from others, also after a restart.
type author struct {
	mu   sync.Mutex
	name string
}

func (a *author) learn(r *certificatesv1.CertificateSigningRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.name = r.Spec.Username
}

func (a *author) known() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.name
}

// made reports whether this agent has made a certificate request.
func (a *agent) made(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (bool, error) {
	name := a.author.known()
	if name == "" {
		// A request that is not stored shows it as well, on all versions of
		// Kubernetes and without further rights.
		probe := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "muster-access-"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: r.Spec.Request, SignerName: r.Spec.SignerName, Usages: r.Spec.Usages,
			},
		}
		if err := a.local.Create(ctx, probe, client.DryRunAll); err != nil {
			return false, fmt.Errorf("find out who the agent is in the managed cluster: %w", err)
		}
		a.author.learn(probe)
		name = probe.Spec.Username
	}
	return name != "" && r.Spec.Username == name, nil
}

// removeStray deletes a certificate request of this agent whose credential is gone.
func (a *agent) removeStray(ctx context.Context, r *certificatesv1.CertificateSigningRequest) error {
	ours, err := a.made(ctx, r)
	if err != nil || !ours {
		return err
	}
	return a.remove(ctx, r)
}
