package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Refuses returns why the cluster does not let in what a credential asks for, or
// nil. It does not look at the mode; see Modes. agentNamespace is where the agent
// lives, which is never for users.
func (p Policy) Refuses(spec v1alpha1.ClusterCredentialSpec, agentNamespace string) error {
	lifetime := time.Duration(spec.ExpirationSeconds) * time.Second
	switch {
	case p.broken != nil:
		return p.broken
	case p.disabled:
		return fmt.Errorf("the cluster's owner has switched user access off")
	case reserved(spec.Namespace, agentNamespace):
		return fmt.Errorf("the namespace %s belongs to Kubernetes or to the agent, and no user of the hub gets access for it", spec.Namespace)
	case !p.namespaces.allows(spec.Namespace):
		return fmt.Errorf("the cluster's owner does not allow access for the namespace %s", spec.Namespace)
	case !p.users.allows(spec.User):
		return fmt.Errorf("the cluster's owner does not allow access for the user %q", spec.User)
	case !p.users.allows(spec.Requester):
		return fmt.Errorf("the cluster's owner does not allow access that the user %q asks for", spec.Requester)
	case p.maxLifetime > 0 && lifetime > p.maxLifetime:
		return fmt.Errorf("access for %s is asked for, and the cluster's owner allows %s at most", lifetime, p.maxLifetime)
	}
	return nil
}

// Modes are the ways in that are asked for and allowed, in the order in which to
// try them. The error says why there is none.
func (p Policy) Modes(asked v1alpha1.AccessMode) ([]v1alpha1.AccessMode, error) {
	modes := []v1alpha1.AccessMode{asked}
	if asked == v1alpha1.AccessAuto {
		modes = []v1alpha1.AccessMode{v1alpha1.AccessCertificate, v1alpha1.AccessToken}
	}
	if len(p.modes) > 0 {
		modes = slices.DeleteFunc(modes, func(m v1alpha1.AccessMode) bool { return !slices.Contains(p.modes, m) })
	}
	if len(modes) == 0 {
		return nil, fmt.Errorf("the cluster's owner does not allow access in the mode %s, only %s", asked, joined(p.modes))
	}
	return modes, nil
}

func joined(modes []v1alpha1.AccessMode) string {
	var words []string
	for _, m := range modes {
		words = append(words, string(m))
	}
	return strings.Join(words, " and ")
}

// reserved reports whether a namespace is never for users, whatever the policy says.
func reserved(name, agentNamespace string) bool {
	return strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, muster.AccountNamespacePrefix) || name == metav1.NamespaceDefault || name == agentNamespace || name == cluster.AgentNamespace
}
