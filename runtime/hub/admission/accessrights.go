package admission

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// mayAsk checks the verbs by which somebody may ask for access: use on the
// logical cloud and, for another user, impersonate on that user and on each group
// that the user is said to have.
func (p *accessRequests) mayAsk(ctx context.Context, a admission.Attributes, r *v1alpha1.AccessRequest) error {
	who := a.GetUserInfo()
	if !p.may(ctx, who, authorizer.AttributesRecord{
		Verb: muster.VerbUse, APIGroup: muster.GroupName, Resource: "logicalclouds", Namespace: a.GetNamespace(), Name: r.Spec.LogicalCloud,
	}) {
		return fmt.Errorf("user %q cannot %s the LogicalCloud %q: the verb %q on logicalclouds is missing", who.GetName(), muster.VerbUse, r.Spec.LogicalCloud, muster.VerbUse)
	}
	if r.Spec.User == who.GetName() {
		return nil
	}
	const verb = "impersonate"
	asUser := authorizer.AttributesRecord{Verb: verb, Resource: "users", Name: r.Spec.User}
	if namespace, name, err := serviceaccount.SplitUsername(r.Spec.User); err == nil {
		asUser.Resource, asUser.Namespace, asUser.Name = "serviceaccounts", namespace, name
	}
	if !p.may(ctx, who, asUser) {
		return fmt.Errorf("user %q cannot ask for access of user %q: the verb %s on %s %q is missing; leave spec.user out to ask for yourself",
			who.GetName(), r.Spec.User, verb, asUser.Resource, asUser.Name)
	}
	for _, group := range r.Spec.Requester.Groups {
		if !p.may(ctx, who, authorizer.AttributesRecord{Verb: verb, Resource: "groups", Name: group}) {
			return fmt.Errorf("user %q cannot say that user %q is in the group %q: the verb %s on groups %q is missing; leave it out of spec.requester.groups",
				who.GetName(), r.Spec.User, group, verb, group)
		}
	}
	return nil
}

// checkNumber checks how many requests the user has for the cluster, and that the
// key was not withdrawn from it. What the hub asks for itself does not count: it
// renews while access goes on.
func (p *accessRequests) checkNumber(ctx context.Context, a admission.Attributes, r *v1alpha1.AccessRequest, cloud *v1alpha1.LogicalCloud, keyHash string) error {
	if until, revoked := cloud.RevokedUntil(r.Spec.ManagedCluster, keyHash, p.clock.Now()); revoked {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
			fmt.Errorf("the key %s was withdrawn from the cluster %q, and a certificate of it lives until %s: ask with another key", keyHash, r.Spec.ManagedCluster, until.UTC().Format(time.RFC3339)))
	}
	if r.Labels[muster.HubMadeLabel] != "" {
		return nil
	}
	selector := fields.Set{"spec.logicalCloud": r.Spec.LogicalCloud, "spec.managedCluster": r.Spec.ManagedCluster, "spec.user": r.Spec.User}.AsSelector()
	list, err := p.client.Resource(v1alpha1.GroupVersion.WithResource("accessrequests")).Namespace(a.GetNamespace()).
		List(ctx, metav1.ListOptions{FieldSelector: selector.String()})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("count the access requests of user %q: %w", r.Spec.User, err))
	}
	live := map[string]bool{}
	for i := range list.Items {
		var have v1alpha1.AccessRequest
		if err := decode(&list.Items[i], &have); err != nil {
			return apierrors.NewInternalError(err)
		}
		live[have.Name] = have.Labels[muster.HubMadeLabel] == "" && !have.HasEnded()
	}
	limit := int(cloud.Spec.Access.MaxRequestsPerUser)
	if limit == 0 {
		limit = 10
	}
	key := fmt.Sprintf("%s/%s/%s/%s", a.GetNamespace(), r.Spec.LogicalCloud, r.Spec.ManagedCluster, r.Spec.User)
	if n, ok := p.limits.take(p.clock.Now(), key, r.Name, live, limit, a.IsDryRun()); !ok {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
			fmt.Errorf("user %q has %d access requests for the cluster %q that have not ended, and the logical cloud %q allows no more than %d (spec.access.maxRequestsPerUser): delete those that are of no use",
				r.Spec.User, n, r.Spec.ManagedCluster, cloud.Name, limit))
	}
	return nil
}
