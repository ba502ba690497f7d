package admission

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// hostings check who has an add-on hosted in another cluster. The hub brings works into
// the namespace of that cluster, so who asks for it has to be allowed to do so, too:
// otherwise the administrator of one cluster could write into another one. What a
// ManagedCluster is annotated with, its add-ons get.
type hostings struct{ access }

var _ admission.ValidationInterface = &hostings{}

func (*hostings) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate refuses a hosting cluster in which the user may not create works. Who may not
// can't change, either, how an add-on is configured that is hosted there.
func (p *hostings) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	ofCluster := concerns(a, cluster.GroupName, "managedclusters")
	if !ofCluster && !concerns(a, addon.GroupName, "managedclusteraddons") {
		return nil
	}
	now, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	host := now.GetAnnotations()[addon.HostingClusterAnnotation]
	if before, had := a.GetOldObject().(*unstructured.Unstructured); had && before.GetAnnotations()[addon.HostingClusterAnnotation] == host {
		if ofCluster || reflect.DeepEqual(before.Object["spec"], now.Object["spec"]) {
			return nil
		}
	}
	create := authorizer.AttributesRecord{Verb: "create", APIGroup: work.GroupName, Resource: "manifestworks", Namespace: host}
	if host == "" || p.may(ctx, a.GetUserInfo(), create) {
		return nil
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), fmt.Errorf(
		"the annotation %s names %q: user %q may not create manifestworks in the namespace of that cluster, where the add-on's works would be; leave the annotation out, or ask an administrator of the hosting cluster",
		addon.HostingClusterAnnotation, host, a.GetUserInfo().GetName()))
}
