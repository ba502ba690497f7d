package klusterlet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// A bootstrap Secret that the agent deletes on purpose is not missed, and not handed
// over again while the agent has its certificate.
func TestADeletedBootstrapSecretIsNotMissed(t *testing.T) {
	for _, x := range []struct {
		arg                string
		missed, handedOver bool
	}{
		{"-v=2", true, true},
		{"--delete-bootstrap-secret", false, false},
		{"--delete-bootstrap-secret=true", false, false},
		{"--delete-bootstrap-secret=false", true, true},
	} {
		a := &agent{name: "c", options: klusterlet.Options{ClusterName: "c", AgentOptions: v1alpha1.AgentOptions{Args: []string{x.arg}}}}
		seen := observation{certified: true, deletes: a.deletesBootstrap()}
		seen.compare(a, &corev1.Secret{}, nil)
		if missed := len(seen.drifts) > 0; missed != x.missed {
			t.Errorf("%s: drifts %q", x.arg, seen.drifts)
		}
		in := &installation{agent: a, seen: seen}
		if got := in.needsBootstrap(); got != x.handedOver {
			t.Errorf("%s: another one is needed: %t", x.arg, got)
		}
		in.seen.certified = false
		if !in.needsBootstrap() {
			t.Errorf("%s: an agent without a certificate gets no bootstrap kubeconfig", x.arg)
		}
		in.renew, in.seen = true, observation{certified: true, deletes: true}
		if !in.needsBootstrap() {
			t.Errorf("%s: a new one that is asked for is not handed over", x.arg)
		}
	}
}
