package registration

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// MessageApproved is in the Approved condition of a request that the hub approved. The
// reason is cluster.ReasonCSRAutoApproved.
const MessageApproved = "Auto approving addon agent certificate."

// With upstream's gRPC server, agents don't make their requests by themselves.
const (
	// GRPCServer is its user name.
	GRPCServer = "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"
	// RequesterAnnotation on a request of its names the user who asked it.
	RequesterAnnotation = "open-cluster-management.io/csr-user"
)

// Authenticated is the group of all users, which older add-ons ask for beside the two
// groups of theirs.
const Authenticated = "system:authenticated"

// Subject is the subject of the certificates of a registration.
func (r Registration) Subject() pkix.Name {
	return pkix.Name{CommonName: r.User, Organization: slices.Clone(r.Groups), OrganizationalUnit: slices.Clone(r.OrganizationUnits)}
}

// IsRequest distinguishes the certificate requests of add-ons from others, by their labels and
// name.
func IsRequest(r *certificatesv1.CertificateSigningRequest) bool {
	return strings.HasPrefix(r.Name, "addon") && r.Labels[cluster.NameLabel] != "" && r.Labels[cluster.AddOnNameLabel] != ""
}

// CheckRequest explains why the hub does not approve by itself a request for its own API,
// or nil. The request has to come from an agent of the cluster in its label, and to ask
// for the user of this name of the add-on's agent, and its two groups.
func CheckRequest(r *certificatesv1.CertificateSigningRequest, addOn, agent string) error {
	name := r.Labels[cluster.NameLabel]
	switch {
	case !IsRequest(r):
		return errors.New("it is no request of an add-on, whose name begins with addon and whose labels name cluster and add-on")
	case r.Labels[cluster.AddOnNameLabel] != addOn:
		return fmt.Errorf("its label names the add-on %q, and not %q", r.Labels[cluster.AddOnNameLabel], addOn)
	case r.Spec.SignerName != addon.KubeClientSigner:
		return fmt.Errorf("its signer is %q, and not %q", r.Spec.SignerName, addon.KubeClientSigner)
	case !strings.HasPrefix(r.Spec.Username, cluster.UserPrefix+name+":"):
		return fmt.Errorf("user %q, who made it, is no agent of the cluster %q", r.Spec.Username, name)
	}
	parsed, err := ParseRequest(r)
	if err != nil {
		return err
	}
	return checkSubject(parsed.Subject, name, addOn, agent)
}

func checkSubject(s pkix.Name, clusterName, addOn, agent string) error {
	if want := User(clusterName, addOn, agent); s.CommonName != want {
		return fmt.Errorf("its common name is %q, and not %q", s.CommonName, want)
	}
	others := slices.Clone(s.Organization)
	for _, group := range Groups(clusterName, addOn) {
		i := slices.Index(others, group)
		if i < 0 {
			return fmt.Errorf("its organizations %q lack %q", s.Organization, group)
		}
		others = slices.Delete(others, i, i+1)
	}
	if len(others) > 1 || len(others) == 1 && others[0] != Authenticated {
		return fmt.Errorf("its organizations %q are more than the groups of the add-on's agent", s.Organization)
	}
	return nil
}

// CheckSigned explains why the hub does not approve by itself a request for a signer of an
// add-on's own, or nil. The request has to come from an agent of the cluster in its
// label, and to ask for one of these subjects and for no other name than the add-on's.
func CheckSigned(r *certificatesv1.CertificateSigningRequest, subjects ...pkix.Name) error {
	clusterName, addOn := r.Labels[cluster.NameLabel], r.Labels[cluster.AddOnNameLabel]
	switch {
	case !IsRequest(r):
		return errors.New("it is no request of an add-on, whose name begins with addon and whose labels name cluster and add-on")
	case ReservedSigner(r.Spec.SignerName):
		return fmt.Errorf("its signer %q is one of Kubernetes' own", r.Spec.SignerName)
	case !MadeByAgent(r, clusterName):
		return fmt.Errorf("user %q, who made it, is no agent of the cluster %q", r.Spec.Username, clusterName)
	}
	parsed, err := ParseRequest(r)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(subjects, func(s pkix.Name) bool { return sameSubject(parsed.Subject, s) }) {
		return fmt.Errorf("its subject is %q, and not that of the add-on's registration", parsed.Subject)
	}
	if len(parsed.EmailAddresses)+len(parsed.IPAddresses)+len(parsed.URIs) > 0 ||
		slices.ContainsFunc(parsed.DNSNames, func(name string) bool { return name != DNSName(addOn) }) {
		return fmt.Errorf("it asks for other names than %q", DNSName(addOn))
	}
	return nil
}

// ParseRequest reads a certificate request, and checks that who made it has its key.
func ParseRequest(r *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	return ParsePEM(r.Spec.Request)
}

// ParsePEM reads the PEM block of a certificate request, and checks that who made it has
// its key.
func ParsePEM(request []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("it is not a PEM block of type CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = parsed.CheckSignature()
	}
	if err != nil {
		return nil, fmt.Errorf("it is not a certificate request: %w", err)
	}
	return parsed, nil
}

// sameSubject compares all of two subjects. The order of groups makes no difference.
func sameSubject(a, b pkix.Name) bool {
	return slices.Equal(attributes(a), attributes(b))
}

// attributes are the parts of a subject, sorted.
func attributes(s pkix.Name) (out []string) {
	for _, set := range s.ToRDNSequence() {
		for _, part := range set {
			out = append(out, fmt.Sprintf("%s=%v", part.Type, part.Value))
		}
	}
	for _, part := range s.Names { // those that Go has no field for are here alone
		out = append(out, fmt.Sprintf("%s=%v", part.Type, part.Value))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// AsksFor reports whether a certificate request is the one of a registration: by its
// signer, and by its whole subject. Where the registration leaves the user to the agent,
// each name of an agent of the add-on will do. For the hub, where only user and groups
// count, the subject may have fewer groups, and organizational units that nobody reads;
// which credential the agent gets there is for the agent to choose.
func (r Registration) AsksFor(signer string, request *x509.CertificateRequest) bool {
	want := r
	if r.ForHub() {
		want.Signer = addon.KubeClientSigner
		if r.Driver == DriverToken {
			want.User, want.Groups = User(r.Cluster, r.AddOn, r.AddOn), Groups(r.Cluster, r.AddOn)
		}
	}
	got := request.Subject
	agent, ok := strings.CutPrefix(got.CommonName, User(r.Cluster, r.AddOn, ""))
	if want.User == User(r.Cluster, r.AddOn, r.AddOn) && ok && agent != "" && !strings.Contains(agent, ":") {
		want.User = got.CommonName
	}
	if signer != want.Signer || got.CommonName != want.User {
		return false
	}
	if !r.ForHub() {
		return sameSubject(got, want.Subject())
	}
	known := pkix.Name{CommonName: got.CommonName, Organization: got.Organization, OrganizationalUnit: got.OrganizationalUnit}
	another := func(group string) bool { return group != Authenticated && !slices.Contains(want.Groups, group) }
	return len(attributes(got)) == len(attributes(known)) && !slices.ContainsFunc(got.Organization, another)
}

// ReservedSigner reports whether a signer is one of Kubernetes' own, for which no
// add-on signs.
func ReservedSigner(name string) bool { return strings.HasPrefix(name, "kubernetes.io/") }

// MadeByAgent reports whether a request came from an agent of a cluster.
func MadeByAgent(r *certificatesv1.CertificateSigningRequest, clusterName string) bool {
	return strings.HasPrefix(r.Spec.Username, cluster.UserPrefix+clusterName+":")
}

// Lifetimes to ask for tokens, in seconds.
const (
	DefaultTokenExpiration = 31536000
	MinTokenExpiration     = 600
)

// Token is what a service account's token says about itself.
type Token struct {
	IssuedAt, Expires time.Time
	// UID is the service account's.
	UID types.UID
}

// ParseToken reads a token without verifying it: it is the hub who does. Errors don't
// hold the token.
func ParseToken(token []byte) (Token, error) {
	parts := strings.Split(string(token), ".")
	if len(parts) != 3 {
		return Token{}, fmt.Errorf("it is no token of a service account, which has 3 parts and not %d", len(parts))
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Token{}, errors.New("it is no token of a service account: its second part is not base64")
	}
	var claims struct {
		IssuedAt   *int64 `json:"iat"`
		Expires    *int64 `json:"exp"`
		Kubernetes struct {
			ServiceAccount struct {
				UID types.UID `json:"uid"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return Token{}, errors.New("it is no token of a service account: its second part is not JSON with numbers for iat and exp")
	}
	switch {
	case claims.IssuedAt == nil:
		return Token{}, errors.New("it does not say when it was issued (iat)")
	case claims.Expires == nil:
		return Token{}, errors.New("it does not say when it expires (exp)")
	case *claims.Expires <= *claims.IssuedAt:
		return Token{}, errors.New("it expires before it was issued")
	}
	return Token{
		IssuedAt: time.Unix(*claims.IssuedAt, 0), Expires: time.Unix(*claims.Expires, 0), UID: claims.Kubernetes.ServiceAccount.UID,
	}, nil
}

// Check explains why a token is not to be used any more, or nil.
func (t Token) Check(uid types.UID, now time.Time) error {
	switch {
	case t.UID != uid:
		return fmt.Errorf("it is of a service account with the UID %q, and not %q", t.UID, uid)
	case !now.Before(t.Expires):
		return fmt.Errorf("it expired at %s", t.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// RefreshAt is when to get another token: when a fifth of its life remains.
func (t Token) RefreshAt() time.Time { return t.Expires.Add(-t.Expires.Sub(t.IssuedAt) / 5) }

// ConditionTokenInfrastructureReady says whether the hub has made the service account
// of an add-on. Its message has the UID of the service account.
const ConditionTokenInfrastructureReady = "TokenInfrastructureReady"

// Reasons of ConditionTokenInfrastructureReady.
const (
	ReasonTokenInfrastructureReady       = "TokenInfrastructureReady"
	ReasonTokenInfrastructureApplyFailed = "TokenInfrastructureApplyFailed"
	// FormatTokenInfrastructureApplyFailed takes the error.
	FormatTokenInfrastructureApplyFailed = "Failed to apply token infrastructure: %v"
)

// TokenInfrastructureMessage is the message of a condition
// ConditionTokenInfrastructureReady that is True.
func TokenInfrastructureMessage(namespace, name string, uid types.UID) string {
	return fmt.Sprintf("ServiceAccount %s/%s (UID: %s) is ready", namespace, name, uid)
}

// ServiceAccountUID reads the UID out of such a message.
func ServiceAccountUID(message string) (types.UID, error) {
	_, rest, found := strings.Cut(message, "UID: ")
	uid, _, closed := strings.Cut(rest, ")")
	if uid = strings.TrimSpace(uid); !found || !closed || uid == "" {
		return "", fmt.Errorf("the message of the condition %s has no UID of the service account, as in %q",
			ConditionTokenInfrastructureReady, TokenInfrastructureMessage("c1", "a-agent", "0123"))
	}
	return types.UID(uid), nil
}

// ErrTokenInfrastructure is that the hub has not made the service account of an add-on
// yet, or could not.
var ErrTokenInfrastructure = errors.New("the hub has not made the service account of the add-on yet")

// AnnouncedUID is the UID of the service account that the hub has made for an add-on.
func AnnouncedUID(a *addonv1beta1.ManagedClusterAddOn) (types.UID, error) {
	c := meta.FindStatusCondition(a.Status.Conditions, ConditionTokenInfrastructureReady)
	switch {
	case c == nil:
		return "", ErrTokenInfrastructure
	case c.Status != metav1.ConditionTrue:
		return "", fmt.Errorf("%w: %s", ErrTokenInfrastructure, c.Message)
	}
	return ServiceAccountUID(c.Message)
}
