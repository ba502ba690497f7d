// Package policy reads what a cluster's owner has decided about user access, in
// the ConfigMap muster-access-policy of the agent's namespace, and judges by it. It
// is pure: values in, values out.
//
// What a policy does not understand refuses everything. A word that is spelt wrong
// would otherwise allow what the owner wanted to forbid.
package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Keys of the config map. All are optional. Lists are separated by commas or white
// space, and a * in a name stands for any characters.
const (
	// KeyEnabled is "true" or "false": whether users of the hub may come in at all.
	KeyEnabled = "enabled"
	// KeyModes lists the ways in that are allowed: Certificate, Token.
	KeyModes = "modes"
	// KeyMaxLifetimeSeconds is how long access may last.
	KeyMaxLifetimeSeconds = "maxLifetimeSeconds"
	// KeyAllowedNamespaces lists the only namespaces that access may be for.
	KeyAllowedNamespaces = "allowedNamespaces"
	// KeyForbiddenNamespaces lists namespaces that access may not be for.
	KeyForbiddenNamespaces = "forbiddenNamespaces"
	// KeyAllowedUsers lists the only users of the hub that may come in.
	KeyAllowedUsers = "allowedUsers"
	// KeyForbiddenUsers lists users of the hub that may not come in, nor ask for
	// others.
	KeyForbiddenUsers = "forbiddenUsers"
	// KeyTunnels is "true" or "false": whether those who come in may do so through the hub,
	// where the agent takes tunnels.
	KeyTunnels = "tunnels"
)

// Policy is what a cluster's owner has decided. The zero value allows everything
// that is not reserved.
type Policy struct {
	disabled    bool
	noTunnels   bool
	modes       []v1alpha1.AccessMode // all when empty
	maxLifetime time.Duration         // unlimited when 0
	namespaces  rule
	users       rule
	// broken says why the policy can't be read.
	broken error
}

// rule allows some names and forbids others.
type rule struct {
	allowed, forbidden []*regexp.Regexp
}

func (r rule) allows(name string) bool {
	matches := func(p *regexp.Regexp) bool { return p.MatchString(name) }
	return !slices.ContainsFunc(r.forbidden, matches) && (r.allowed == nil || slices.ContainsFunc(r.allowed, matches))
}

// Read reads a policy; nil is a cluster whose owner has written none. A policy that
// can't be read refuses everything; see Problem.
func Read(cm *corev1.ConfigMap) Policy {
	if cm == nil {
		return Policy{}
	}
	p, err := parse(cm.Data)
	if err == nil && len(cm.BinaryData) > 0 {
		err = fmt.Errorf("it has binaryData, which no policy has: write its entries as data")
	}
	if err != nil {
		return Policy{broken: fmt.Errorf("the access policy in the ConfigMap %s/%s can't be read, so no new access is given: %w",
			cm.Namespace, cm.Name, err)}
	}
	return p
}

// Problem is why the policy can't be read, or nil.
func (p Policy) Problem() error { return p.broken }

func parse(data map[string]string) (p Policy, err error) {
	for key, value := range data {
		switch key {
		case KeyEnabled:
			p.disabled, err = readFalse(key, value)
		case KeyTunnels:
			p.noTunnels, err = readFalse(key, value)
		case KeyModes:
			err = p.readModes(value)
		case KeyMaxLifetimeSeconds:
			err = p.readMaxLifetime(value)
		case KeyAllowedNamespaces:
			p.namespaces.allowed, err = patterns(key, value)
		case KeyForbiddenNamespaces:
			p.namespaces.forbidden, err = patterns(key, value)
		case KeyAllowedUsers:
			p.users.allowed, err = patterns(key, value)
		case KeyForbiddenUsers:
			p.users.forbidden, err = patterns(key, value)
		default:
			err = fmt.Errorf("there is no key %q: use %s", key, strings.Join([]string{KeyEnabled, KeyModes, KeyMaxLifetimeSeconds,
				KeyAllowedNamespaces, KeyForbiddenNamespaces, KeyAllowedUsers, KeyForbiddenUsers, KeyTunnels}, ", "))
		}
		if err != nil {
			return Policy{}, err
		}
	}
	return p, nil
}

// readFalse reports whether a value is false.
func readFalse(key, value string) (bool, error) {
	switch strings.TrimSpace(value) {
	case "true":
		return false, nil
	case "false":
		return true, nil
	}
	return false, fmt.Errorf("%s is %q: use true or false", key, value)
}

func (p *Policy) readModes(value string) error {
	p.modes = []v1alpha1.AccessMode{}
	for _, word := range words(value) {
		mode := v1alpha1.AccessMode(word)
		if mode != v1alpha1.AccessCertificate && mode != v1alpha1.AccessToken {
			return fmt.Errorf("%s has %q: use %s, %s or both", KeyModes, word, v1alpha1.AccessCertificate, v1alpha1.AccessToken)
		}
		p.modes = append(p.modes, mode)
	}
	if len(p.modes) == 0 {
		return fmt.Errorf("%s is empty: name a mode, leave the key out, or set %s to false", KeyModes, KeyEnabled)
	}
	return nil
}

func (p *Policy) readMaxLifetime(value string) error {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	if err != nil || n < muster.MinLifetimeSeconds {
		return fmt.Errorf("%s is %q: use a number of seconds, %d or more", KeyMaxLifetimeSeconds, value, muster.MinLifetimeSeconds)
	}
	p.maxLifetime = time.Duration(n) * time.Second
	return nil
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
}

// patterns are never nil: an empty list of what is allowed allows nothing, so it is
// refused as a mistake.
func patterns(key, list string) ([]*regexp.Regexp, error) {
	out := []*regexp.Regexp{}
	for _, word := range words(list) {
		out = append(out, pattern(word))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s is empty: name something, or leave the key out", key)
	}
	return out, nil
}

// pattern matches a name in which * stands for any characters.
func pattern(word string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)\A` + strings.ReplaceAll(regexp.QuoteMeta(word), `\*`, `.*`) + `\z`)
}

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

// RefusesTunnel returns why the cluster does not let in, through the hub, who has access by
// a credential, or nil. A policy that can't be read refuses it.
func (p Policy) RefusesTunnel(spec v1alpha1.ClusterCredentialSpec, agentNamespace string) error {
	if err := p.Refuses(spec, agentNamespace); err != nil {
		return err
	}
	if p.noTunnels {
		return fmt.Errorf("the cluster's owner does not allow tunnels")
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
