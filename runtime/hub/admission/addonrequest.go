package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/kubernetes/pkg/apis/certificates"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// addOnRequests refuse certificate requests of agents that are neither for the agent itself
// nor what a registration of one of its add-ons asks for: nobody needs them, and whoever
// approves by a look at the label would make the agent anybody.
type addOnRequests struct{ client dynamic.Interface }

var (
	_ admission.ValidationInterface  = &addOnRequests{}
	_ initializer.WantsDynamicClient = &addOnRequests{}
)

// Handles is part of admission.Interface.
func (*addOnRequests) Handles(op admission.Operation) bool { return op == admission.Create }

// SetDynamicClient is called by the API server before it serves.
func (p *addOnRequests) SetDynamicClient(c dynamic.Interface) { p.client = c }

// ValidateInitialization fails the server's start when something is missing.
func (p *addOnRequests) ValidateInitialization() error {
	if p.client == nil {
		return errors.New("no client was given")
	}
	return nil
}

// Validate checks the certificate requests of agents that are not for themselves.
func (p *addOnRequests) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
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
		err = fmt.Errorf("user %q is an agent of %s: %w", a.GetUserInfo().GetName(), namesOf(own), err)
		return apierrors.NewForbidden(a.GetResource().GroupResource(), r.Name, err)
	}
	return nil
}

// checkRegistered refuses the certificate request of an add-on that none of the add-on's
// registrations asks for: its signer and its whole subject have to be those of one. A
// certificate for the hub has to name the cluster as well, or it would stay good when the
// cluster is denied.
func (p *addOnRequests) checkRegistered(ctx context.Context, r *certificates.CertificateSigningRequest) error {
	namespace, name := r.Labels[cluster.NameLabel], r.Labels[cluster.AddOnNameLabel]
	parsed, err := registration.ParsePEM(r.Spec.Request)
	if err != nil {
		return err
	}
	addOns := p.client.Resource(addonv1beta1.GroupVersion.WithResource("managedclusteraddons"))
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
