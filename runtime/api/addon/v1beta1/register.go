package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: addon.GroupName, Version: "v1beta1"}

	// SchemeBuilder collects the functions that add this package's kinds to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme teaches a scheme the kinds of this package.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Resource qualifies a plural resource name, such as "managedclusteraddons", with
// this package's API group, as error constructors and RESTMappers want it.
func Resource(plural string) schema.GroupResource {
	return GroupVersion.WithResource(plural).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&AddOnDeploymentConfig{}, &AddOnDeploymentConfigList{},
		&AddOnTemplate{}, &AddOnTemplateList{},
		&ClusterManagementAddOn{}, &ClusterManagementAddOnList{},
		&ManagedClusterAddOn{}, &ManagedClusterAddOnList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
