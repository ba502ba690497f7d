package admission

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/budget"
)

// certificateRequests limits agents and bootstrap identities to certificate
// requests for their own clusters, so that nobody's requests get in the way of
// another cluster.
type certificateRequests struct {
	creations
	*requestLimits
}

var _ initializer.WantsExternalKubeInformerFactory = certificateRequests{}

// Validate checks the certificate requests of agents and bootstrap identities.
// Requests of other users are not checked.
func (p certificateRequests) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, certificatesv1.GroupName, "certificatesigningrequests") {
		return nil
	}
	request, ok := a.GetObject().(*certificates.CertificateSigningRequest)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected a CertificateSigningRequest, got %T", a.GetObject()))
	}
	who := a.GetUserInfo()
	// A request with a name ignores its prefix for generated names.
	err := checkRequest(who, request, cmp.Or(a.GetName(), request.GenerateName))
	if err == nil {
		err = p.room(who, request, a.IsDryRun())
	}
	if err != nil {
		return forbidden(a, "%w", err)
	}
	return nil
}

// checkRequest explains why a user may not make a certificate request. name is
// the name of the request, or its prefix.
func checkRequest(who user.Info, r *certificates.CertificateSigningRequest, name string) error {
	bound, agent := cluster.BoundClusters(who.GetGroups()), cluster.AgentClusters(who.GetGroups())
	switch {
	case len(bound) > 0:
		identity, err := checkFirst(r, name)
		if err == nil && !slices.Contains(bound, identity.Cluster) {
			err = fmt.Errorf("the request is for the cluster %q", identity.Cluster)
		}
		if err != nil {
			return fmt.Errorf("the bootstrap token of user %q is bound to %s: %w", who.GetName(), namesOf(bound), err)
		}
	case len(agent) > 0:
		if err := checkAgents(agent, r, name); err != nil {
			return fmt.Errorf("user %q is an agent of %s and asks for certificates of no other: %w", who.GetName(), namesOf(agent), err)
		}
	case isBootstrap(who) && (r.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName || r.Labels[cluster.NameLabel] != ""):
		if _, err := checkFirst(r, name); err != nil {
			return fmt.Errorf("user %q asks for certificates of agents only: %w", who.GetName(), err)
		}
	}
	return nil
}

// isBootstrap reports whether a user registers clusters: a bootstrap token, or
// the bootstrap service account.
func isBootstrap(who user.Info) bool {
	return cluster.IsBootstrap(who.GetName(), who.GetGroups())
}

// checkFirst checks the first request of an agent, which a bootstrap identity
// makes.
func checkFirst(r *certificates.CertificateSigningRequest, name string) (cluster.RequestIdentity, error) {
	identity, err := cluster.ParseRequest(r.Labels, r.Spec.SignerName, r.Spec.Request)
	switch _, addOn := r.Labels[cluster.AddOnNameLabel]; {
	case err != nil:
		return identity, err
	case addOn:
		return identity, fmt.Errorf("the label %s is that of add-ons' requests, which agents make", cluster.AddOnNameLabel)
	}
	return identity, checkName(name, identity.Cluster)
}

// generatedPrefix is how many characters of a prefix remain in a generated
// name.
const generatedPrefix = 58

// checkName checks that the name of a request shows its cluster, as
// administrators decide by the name.
func checkName(name, of string) error {
	prefix := of + "-"
	if !strings.HasPrefix(name, prefix[:min(len(prefix), generatedPrefix)]) {
		return fmt.Errorf("the request's name must begin with %q", prefix)
	}
	return nil
}

// checkAgents checks a request that an agent makes for itself or for an add-on
// of its clusters.
func checkAgents(own []string, r *certificates.CertificateSigningRequest, name string) error {
	of, labelled := r.Labels[cluster.NameLabel]
	if labelled && !slices.Contains(own, of) {
		return fmt.Errorf("the label %s is %q", cluster.NameLabel, of)
	}
	if err := checkSubject(own, r.Spec.Request); err != nil {
		return err
	}
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	if _, addOn := r.Labels[cluster.AddOnNameLabel]; addOn && labelled {
		return nil // whose subject the add-on chooses
	}
	identity, err := cluster.ParseRequest(r.Labels, r.Spec.SignerName, r.Spec.Request)
	if err != nil {
		return err
	}
	return checkName(name, identity.Cluster)
}

// checkSubject refuses a subject that names anything but the agent's own
// clusters and their add-ons.
func checkSubject(own []string, request []byte) error {
	block, _ := pem.Decode(request)
	if block == nil {
		return errors.New("the request is not a PEM block")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("the request is not a certificate request: %w", err)
	}
	if !mayName(own, parsed.Subject.CommonName, false) {
		return fmt.Errorf("the subject names %q", parsed.Subject.CommonName)
	}
	for _, group := range parsed.Subject.Organization {
		if !mayName(own, group, true) {
			return fmt.Errorf("the subject names %q", group)
		}
	}
	return nil
}

// mayName reports whether agents of the clusters own may ask for a certificate
// with a user or group of this name.
func mayName(own []string, name string, isGroup bool) bool {
	var of []cluster.Belonging
	if isGroup {
		of = cluster.BelongsTo("", []string{name})
	} else {
		of = cluster.BelongsTo(name, nil)
	}
	if len(of) > 0 {
		return !slices.ContainsFunc(of, func(b cluster.Belonging) bool {
			return b.Part == cluster.Account || !slices.Contains(own, b.Cluster)
		})
	}
	// Certificates of add-ons contain the group of all authenticated users.
	switch {
	case !strings.HasPrefix(name, "system:"):
		return true
	case name == user.AllAuthenticated, name == cluster.ManagedClustersGroup:
		return isGroup
	}
	return isGroup && strings.HasPrefix(name, cluster.AddOnGroup(""))
}

// Limits of the certificate requests of one cluster that bootstrap identities
// may have on the hub, in any state. Upstream's agents make no further request,
// not even to renew, when there are cluster.MaxPendingRequests of their cluster
// from any user. So the identities that can ask for any cluster together stay
// below that number.
const (
	perIdentity = 5
	together    = 8
)

// settling is how long an admitted request counts that the cache does not show
// yet. After that time the cache shows it, or a later check has refused it.
const settling = 10 * time.Second

// byCluster indexes certificate requests by the cluster in their label.
const byCluster = "cluster"

// requestLimits counts the certificate requests in the server's own cache, and
// the admitted ones that the cache does not show yet.
type requestLimits struct {
	clock   clock.PassiveClock
	indexer cache.Indexer
	recent  budget.Recent[arrival]
}

func newRequestLimits(clk clock.PassiveClock) *requestLimits {
	return &requestLimits{clock: clk, recent: budget.Recent[arrival]{Within: settling}}
}

// arrival is an admitted request.
type arrival struct {
	name, cluster, who string
	// unbound is whether the requester may ask for any cluster.
	unbound bool
}

// SetExternalKubeInformerFactory is called by the API server before it serves.
func (l *requestLimits) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	informer := f.Certificates().V1().CertificateSigningRequests().Informer()
	if err := informer.AddIndexers(cache.Indexers{byCluster: clusterOf}); err != nil {
		return // ValidateInitialization reports it
	}
	l.indexer = informer.GetIndexer()
}

// ValidateInitialization fails the server's start when the cache is missing.
func (l *requestLimits) ValidateInitialization() error {
	if l.indexer == nil {
		return errors.New("there is no cache of certificate requests")
	}
	return nil
}

func clusterOf(o any) ([]string, error) {
	r, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok || r.Labels[cluster.NameLabel] == "" {
		return nil, nil
	}
	if _, addOn := r.Labels[cluster.AddOnNameLabel]; addOn {
		return nil, nil
	}
	return []string{r.Labels[cluster.NameLabel]}, nil
}

// room explains why a bootstrap identity may have no further request of a
// cluster on the hub. An identity that is bound to the cluster has a count of
// its own.
func (l *requestLimits) room(who user.Info, r *certificates.CertificateSigningRequest, dryRun bool) error {
	name := r.Labels[cluster.NameLabel]
	if name == "" || !isBootstrap(who) {
		return nil
	}
	cached, err := l.indexer.ByIndex(byCluster, name)
	if err != nil {
		return fmt.Errorf("count the certificate requests of the cluster %s: %w", name, err)
	}
	next := arrival{name: r.Name, cluster: name, who: who.GetName(), unbound: unbound(who)}
	return l.recent.Admit(l.clock.Now(), next, dryRun, func(before []arrival) error {
		if mine, all := countRequests(cached, before, next); mine >= perIdentity || next.unbound && all >= together {
			return fmt.Errorf("the hub has %d certificate requests of the cluster %q from user %q, and %d from all that may register any cluster, "+
				"and takes no more than %d and %d: delete those that are of no use with \"kubectl delete csr -l %s=%s\", or use a token that is bound to the cluster",
				mine, name, next.who, all, perIdentity, together, cluster.NameLabel, name)
		}
		return nil
	})
}

// countRequests counts the requests of a cluster that its requester, and all together who
// may ask for any cluster, have on the hub: those in the cache, and those that it does not
// show yet.
func countRequests(cached []any, admitted []arrival, of arrival) (mine, all int) {
	seen := map[string]bool{}
	count := func(requester string, unbound bool) {
		if requester == of.who {
			mine++
		}
		if unbound {
			all++
		}
	}
	for _, o := range cached {
		r := o.(*certificatesv1.CertificateSigningRequest)
		seen[r.Name] = true
		count(r.Spec.Username, unbound(&user.DefaultInfo{Name: r.Spec.Username, Groups: r.Spec.Groups}))
	}
	for _, a := range admitted {
		if a.cluster == of.cluster && !seen[a.name] {
			count(a.who, a.unbound)
		}
	}
	return mine, all
}

// unbound reports whether a user may ask for the certificates of any cluster.
func unbound(who user.Info) bool {
	return isBootstrap(who) && len(cluster.BoundClusters(who.GetGroups())) == 0
}

// addOnRequests refuse certificate requests of agents that are neither for the agent itself
// nor what a registration of one of its add-ons asks for: nobody needs them, and an
// administrator who approves one by its label would let the agent become any user.
type addOnRequests struct {
	creations
	*server
}

// Validate checks the certificate requests of agents that are not for themselves.
func (p addOnRequests) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, certificatesv1.GroupName, "certificatesigningrequests") {
		return nil
	}
	own := cluster.AgentClusters(a.GetUserInfo().GetGroups())
	r, ok := a.GetObject().(*certificates.CertificateSigningRequest)
	if !ok || len(own) == 0 {
		return nil
	}
	var err error
	switch _, addOn := r.Labels[cluster.AddOnNameLabel]; {
	case addOn:
		err = p.checkRegistered(ctx, r)
	default:
		_, err = cluster.ParseRequest(r.Labels, r.Spec.SignerName, r.Spec.Request)
	}
	if err != nil {
		return forbidden(a, "user %q is an agent of %s: %w", a.GetUserInfo().GetName(), namesOf(own), err)
	}
	return nil
}

// checkRegistered refuses the certificate request of an add-on that none of the add-on's
// registrations asks for: its signer and its whole subject have to be those of one. A
// certificate for the hub has to name the cluster as well, or it would stay good when the
// cluster is denied.
func (p addOnRequests) checkRegistered(ctx context.Context, r *certificates.CertificateSigningRequest) error {
	namespace, name := r.Labels[cluster.NameLabel], r.Labels[cluster.AddOnNameLabel]
	parsed, err := registration.ParsePEM(r.Spec.Request)
	if err != nil {
		return err
	}
	addOns := p.objects.Resource(addonv1beta1.GroupVersion.WithResource("managedclusteraddons"))
	object, err := addOns.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the cluster %q has no add-on %q", namespace, name)
	case err != nil:
		return fmt.Errorf("read the registrations of the add-on %q of the cluster %q: %w", name, namespace, err)
	}
	a := &addonv1beta1.ManagedClusterAddOn{}
	if err := decode(object, a); err != nil {
		return fmt.Errorf("read the registrations of the add-on %q of the cluster %q: %w", name, namespace, err)
	}
	all, _ := registration.Of(a) // what is wrong with others is theirs
	asks := func(one registration.Registration) bool { return one.AsksFor(r.Spec.SignerName, parsed) }
	if !slices.ContainsFunc(all, asks) {
		return fmt.Errorf("no registration in the status of the add-on %q of the cluster %q has the signer %q and the subject %q: "+
			"they are those that the add-on's manager writes there", name, namespace, r.Spec.SignerName, parsed.Subject)
	}
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	group := registration.ClusterAddOnGroup(namespace, name)
	if slices.Contains(parsed.Subject.Organization, group) || strings.HasPrefix(parsed.Subject.CommonName, group+":agent:") {
		return checkNames(group, name, parsed.Subject.CommonName, parsed.Subject.Organization)
	}
	return fmt.Errorf("the subject %q does not name the cluster, "+
		"so that the hub could not take its rights away with the cluster's: have the manager of the add-on %q register the group %q", parsed.Subject, name, group)
}

// checkNames refuses, for the hub's API, names that are others': those of agents, of other
// add-ons, and of Kubernetes. group is that of the add-on's agents in the cluster. Names of
// its own are for the add-on's manager to choose.
func checkNames(group, addOn, user string, groups []string) error {
	for i, name := range append(slices.Clone(groups), user) {
		rest, ours := strings.CutPrefix(name, group)
		isGroup := i < len(groups)
		switch {
		case isGroup && (name == group || name == registration.AddOnGroup(addOn) || name == registration.Authenticated):
		case !isGroup && ours && strings.HasPrefix(rest, ":agent:"):
		case strings.HasPrefix(name, "system:") || len(cluster.BelongsTo(name, []string{name})) > 0:
			return fmt.Errorf("the subject names %q, which is not the add-on's %q", name, addOn)
		}
	}
	return nil
}
