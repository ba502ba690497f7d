// Package access is what hub, agents and clients have in common about user access:
// the subject of a user's certificate, the check of certificate requests and
// certificates, the sealing of tokens, and the manifests' names. It is pure:
// values in, values out. It imports nothing of hub, agent and provider.
//
// It follows the section "User access" of docs/security.md.
package access

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	rbacv1 "k8s.io/api/rbac/v1"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// What the subjects of certificates begin with.
const (
	userPrefix = "muster:"
	keyPrefix  = "muster-key:"
	// accountPrefix is what the names of service accounts begin with.
	accountPrefix = "muster-access-"
)

// maxCommonName is how long a common name may be: OpenSSL refuses longer ones.
const maxCommonName = 64

// hubIDLength is as much of the hash of a hub's UID as a subject carries.
const hubIDLength = 8

// keyHashLength is as much of a public key's SHA-256 as a subject carries: 128
// bits, in hexadecimal digits.
const keyHashLength = 32

// HubID is a short name of a hub, given the UID of its namespace kube-system. It
// keeps the users of two hubs apart in a cluster that both reach.
func HubID(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return hex.EncodeToString(sum[:])[:hubIDLength]
}

// CommonName is the name that a cluster knows a user of a hub by. A user name that
// is too long for a certificate ends in its hash.
func CommonName(hubID, user string) string {
	name := userPrefix + hubID + ":" + user
	if len(name) <= maxCommonName {
		return name
	}
	sum := sha256.Sum256([]byte(user))
	digest := hex.EncodeToString(sum[:])[:16]
	return strings.ToValidUTF8(name[:maxCommonName-len(digest)-1], "") + "-" + digest
}

// KeyHash identifies a public key: the first 32 hexadecimal digits of the SHA-256
// of its PKIX form.
func KeyHash(publicKey any) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		return "", fmt.Errorf("the public key can't be written: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])[:keyHashLength], nil
}

// KeyGroup is the group of a key, to which RoleBindings in clusters give rights:
// the organisation in the subject of its certificates.
func KeyGroup(keyHash string) string { return keyPrefix + keyHash }

// ServiceAccount is the name of the service account of a key, in the namespace
// muster.AccountNamespace of a logical cloud, whose tokens are issued where
// certificates are not. The key is the one that the token is sealed to.
func ServiceAccount(keyHash string) string { return accountPrefix + keyHash }

// Subject is the subject that a certificate for a user with a key must have.
func Subject(hubID, user, keyHash string) pkix.Name {
	return pkix.Name{CommonName: CommonName(hubID, user), Organization: []string{KeyGroup(keyHash)}}
}

// sameSubject reports whether a subject is the wanted one and says nothing more.
func sameSubject(got, want pkix.Name) bool {
	return got.CommonName == want.CommonName && slices.Equal(got.Organization, want.Organization) && len(got.Names) == 2
}

// Endpoints are where users reach a cluster: what an administrator says, or else
// what the agent reports. The problem says why there are none, and what to do about it.
func Endpoints(mc *clusterv1.ManagedCluster) (out []v1alpha1.Endpoint, problem string) {
	if override, ok := mc.Annotations[muster.EndpointsAnnotation]; ok {
		out, err := parseEndpoints(override)
		if err != nil {
			return nil, fmt.Sprintf("the annotation %s of the ManagedCluster %s: %v", muster.EndpointsAnnotation, mc.Name, err)
		}
		return out, ""
	}
	for _, c := range mc.Spec.ManagedClusterClientConfigs {
		if c.URL != "" && len(out) < maxEndpoints {
			out = append(out, v1alpha1.Endpoint{URL: c.URL, CABundle: c.CABundle})
		}
	}
	if reported, ok := mc.Annotations[muster.TunnelAnnotation]; ok && len(out) == 0 {
		// Nobody else may reach it there, but the other end of a tunnel does.
		if out, err := parseEndpoints("[" + reported + "]"); err == nil {
			return out, ""
		}
	}
	if len(out) == 0 {
		return nil, fmt.Sprintf("the hub does not know where the API server of the cluster is: start its agent with "+
			"--spoke-external-server-urls, or with --tunnels where nobody reaches it, "+
			"or give the ManagedCluster %s the annotation %s=[{\"url\":\"https://…\",\"caBundle\":\"…\"}]",
			mc.Name, muster.EndpointsAnnotation)
	}
	return out, ""
}

// maxEndpoints is how many endpoints a request may have.
const maxEndpoints = 16

func parseEndpoints(text string) (out []v1alpha1.Endpoint, _ error) {
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("it is not a list of endpoints in JSON: %w", err)
	}
	if len(out) == 0 || len(out) > maxEndpoints {
		return nil, fmt.Errorf("it has %d endpoints, and may have 1 to %d", len(out), maxEndpoints)
	}
	for _, e := range out {
		if u, err := url.Parse(e.URL); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return nil, errors.New("an endpoint's url must begin with https:// and have a host")
		}
	}
	return out, nil
}

// power is a right that, in a whole cluster, makes its holder another user of it.
type power struct {
	verbs, groups, resources []string
	// named says that the right also counts when it is limited to some names, if one
	// of them is a user's of muster or of Kubernetes.
	named bool
}

// write are the verbs that bring content into the cluster.
func write() []string { return []string{"create", "update", "patch"} }

// powers are these rights: to act as another account, to get its token or
// certificate, to run a program in a pod of any account, and to give rights.
func powers() []power {
	core, apps, batch := []string{""}, []string{"apps"}, []string{"batch"}
	return []power{
		{[]string{"impersonate"}, core, []string{"users", "groups", "serviceaccounts"}, true},
		{[]string{"create"}, core, []string{"serviceaccounts/token"}, true},
		{[]string{"approve", "sign"}, []string{"certificates.k8s.io"}, []string{"signers"}, true},
		{[]string{"bind", "escalate"}, []string{rbacv1.GroupName}, []string{"roles", "clusterroles"}, false},
		{write(), core, []string{"pods", "replicationcontrollers", "secrets"}, false},
		{[]string{"create", "get"}, core, []string{"pods/exec", "pods/attach", "nodes/proxy"}, false},
		{[]string{"update", "patch"}, core, []string{"pods/ephemeralcontainers"}, false},
		{write(), apps, []string{"daemonsets", "deployments", "replicasets", "statefulsets"}, false},
		{write(), batch, []string{"cronjobs", "jobs"}, false},
		{write(), []string{"admissionregistration.k8s.io"}, []string{
			"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
		}, false},
	}
}

// ActsAsOthers lists, of rules that hold in a whole cluster, the rights by which
// their holder can act as any other user of the cluster, each as in "create
// serviceaccounts/token". In a namespace of its own the same rights reach nobody else:
// the accounts of users are elsewhere.
func ActsAsOthers(rules []rbacv1.PolicyRule) (rights []string) {
	for _, p := range powers() {
		for _, verb := range p.verbs {
			for _, resource := range p.resources {
				if slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return p.in(r, verb, resource) }) {
					rights = append(rights, verb+" "+resource)
				}
			}
		}
	}
	return rights
}

// ReadsAllSecrets reports whether rules that hold in a whole cluster let their holder
// read its Secrets. Secrets may hold tokens of other accounts.
func ReadsAllSecrets(rules []rbacv1.PolicyRule) bool {
	read := power{verbs: []string{"get", "list", "watch"}, groups: []string{""}}
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(read.verbs, func(verb string) bool { return read.in(r, verb, "secrets") })
	})
}

// in reports whether a rule gives a power by a verb on a resource.
func (p power) in(r rbacv1.PolicyRule, verb, resource string) bool {
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, rbacv1.VerbAll)
	}
	_, subresource, of := strings.Cut(resource, "/")
	if !has(r.Verbs, verb) || !has(r.APIGroups, p.groups[0]) ||
		!has(r.Resources, resource) && (!of || !slices.Contains(r.Resources, "*/"+subresource)) {
		return false
	}
	if len(r.ResourceNames) == 0 {
		return true
	}
	return p.named && slices.ContainsFunc(r.ResourceNames, ofUsers)
}

// ofUsers reports whether a name is that of a user, group, account or signer by which
// users come into a cluster, or that of one of Kubernetes.
func ofUsers(name string) bool {
	return slices.ContainsFunc([]string{userPrefix, keyPrefix, accountPrefix, systemPrefix, "kubernetes.io/", "*"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

const (
	systemPrefix         = "system:"
	serviceAccountPrefix = "system:serviceaccount:"
)

// CheckUser checks the name of a user that is to get access. The names of
// Kubernetes are refused but for service accounts of the hub, by which programs
// ask.
func CheckUser(user string) error {
	switch {
	case user == "":
		return errors.New("it is empty")
	case strings.HasPrefix(user, systemPrefix) && !strings.HasPrefix(user, serviceAccountPrefix):
		return fmt.Errorf("%q is a name of Kubernetes; access is for users and service accounts of the hub", user)
	case strings.ContainsFunc(user, unicode.IsControl):
		return fmt.Errorf("%q contains control characters", user)
	}
	return nil
}

// CheckSpec checks what a request for access asks for against what its logical
// cloud allows, and returns the hash of its key: that of the certificate request,
// or in mode Token of the key that the token is sealed to. Errors begin with the
// field.
func CheckSpec(r *v1alpha1.AccessRequestSpec, cloud *v1alpha1.CloudAccess, hubID string) (keyHash string, err error) {
	certificate, token := r.Mode != v1alpha1.AccessToken, r.Mode == v1alpha1.AccessToken || r.Mode == v1alpha1.AccessAuto
	if err := checkMode(r.Mode, cloud.Modes, certificate, token); err != nil {
		return "", err
	}
	switch {
	case certificate && len(r.Request) == 0:
		return "", fmt.Errorf("spec.request: the mode %s needs a certificate request in PEM", r.Mode)
	case token && len(r.SealTo) == 0:
		return "", fmt.Errorf("spec.sealTo: the mode %s needs an X25519 public key, to which the token is sealed", r.Mode)
	case !certificate && len(r.Request) > 0:
		return "", fmt.Errorf("spec.request: the mode %s needs no certificate request; leave it out, or take the mode %s", r.Mode, v1alpha1.AccessAuto)
	case !token && len(r.SealTo) > 0:
		return "", fmt.Errorf("spec.sealTo: the mode %s has no token to seal; leave it out, or take the mode %s", r.Mode, v1alpha1.AccessAuto)
	case cloud.MaxLifetimeSeconds > 0 && r.ExpirationSeconds > cloud.MaxLifetimeSeconds:
		return "", fmt.Errorf("spec.expirationSeconds: %d is more than the %d that the logical cloud allows (spec.access.maxLifetimeSeconds)", r.ExpirationSeconds, cloud.MaxLifetimeSeconds)
	}
	if token {
		if keyHash, err = CheckSealTo(r.SealTo, r.Request); err != nil {
			return "", fmt.Errorf("spec.sealTo: %w", err)
		}
	}
	if certificate {
		if keyHash, err = CheckRequest(r.Request, hubID, r.User); err != nil {
			return "", fmt.Errorf("spec.request: %w", err)
		}
	}
	return keyHash, nil
}

// checkMode checks that the cloud allows what a mode needs. A cloud without modes
// allows all.
func checkMode(mode v1alpha1.AccessMode, allowed []v1alpha1.AccessMode, certificate, token bool) error {
	for _, need := range []struct {
		mode   v1alpha1.AccessMode
		wanted bool
	}{{v1alpha1.AccessCertificate, certificate}, {v1alpha1.AccessToken, token}} {
		if need.wanted && len(allowed) > 0 && !slices.Contains(allowed, need.mode) {
			return fmt.Errorf("spec.mode: %s is not allowed by the logical cloud; take the mode %s (spec.access.modes)", mode, allowed[0])
		}
	}
	return nil
}
