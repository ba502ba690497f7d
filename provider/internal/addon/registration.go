package addon

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// The credentials and rights of an add-on's agent on the hub.

type registrationModel struct {
	KubeClient   *kubeClientModel   `tfsdk:"kube_client"`
	CustomSigner *customSignerModel `tfsdk:"custom_signer"`
}

type kubeClientModel struct {
	HubPermissions []hubPermissionModel `tfsdk:"hub_permissions"`
}

type hubPermissionModel struct {
	CurrentCluster  *currentClusterModel  `tfsdk:"current_cluster"`
	SingleNamespace *singleNamespaceModel `tfsdk:"single_namespace"`
}

type currentClusterModel struct {
	ClusterRoleName types.String `tfsdk:"cluster_role_name"`
}

type singleNamespaceModel struct {
	Namespace types.String  `tfsdk:"namespace"`
	RoleRef   *roleRefModel `tfsdk:"role_ref"`
}

type roleRefModel struct {
	Kind types.String `tfsdk:"kind"`
	Name types.String `tfsdk:"name"`
}

type customSignerModel struct {
	SignerName types.String    `tfsdk:"signer_name"`
	Subject    *subjectModel   `tfsdk:"subject"`
	SigningCA  *signingCAModel `tfsdk:"signing_ca"`
}

type subjectModel struct {
	User              types.String   `tfsdk:"user"`
	Groups            []types.String `tfsdk:"groups"`
	OrganizationUnits []types.String `tfsdk:"organization_units"`
}

type signingCAModel struct {
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
}

// checkRegistrations refuses two credentials of one kind, whose files would be in the
// same place.
func checkRegistrations(at path.Path, list types.List, diags *diag.Diagnostics) {
	seen := map[string]int{}
	for i, element := range list.Elements() {
		registration, ok := element.(types.Object)
		if !ok || registration.IsNull() || registration.IsUnknown() {
			continue
		}
		key := ""
		if client := registration.Attributes()["kube_client"]; client != nil && !client.IsNull() && !client.IsUnknown() {
			key = addon.KubeClientSigner
		}
		if signer, ok := registration.Attributes()["custom_signer"].(types.Object); ok && !signer.IsNull() {
			if name, ok := signer.Attributes()["signer_name"].(types.String); ok {
				key = name.ValueString()
			}
		}
		if first, twice := seen[key]; twice && key != "" {
			diags.AddAttributeError(at.AtListIndex(i), "Duplicate registration", fmt.Sprintf("%s and %s are for the same signer, %s, so their files would be in the same place. Make one of them.",
				attribute.Place(at.AtListIndex(first)), attribute.Place(at.AtListIndex(i)), key))
			continue
		}
		seen[key] = i
	}
}

// sameRegistrations reports whether two lists mean the same: a credential for the hub
// without rights may be written in two ways.
func sameRegistrations(a, b []v1alpha1.RegistrationSpec) bool {
	return attribute.Same(registrationsOf(registrationModels(a)), registrationsOf(registrationModels(b)))
}

func registrationsOf(models []registrationModel) []v1alpha1.RegistrationSpec {
	var list []v1alpha1.RegistrationSpec
	for _, m := range models {
		if c := m.KubeClient; c != nil {
			spec := v1alpha1.RegistrationSpec{Type: v1alpha1.RegistrationTypeKubeClient, KubeClient: &v1alpha1.KubeClientRegistrationConfig{}}
			for _, p := range c.HubPermissions {
				spec.KubeClient.HubPermissions = append(spec.KubeClient.HubPermissions, p.permission())
			}
			list = append(list, spec)
		}
		if s := m.CustomSigner; s != nil {
			spec := v1alpha1.RegistrationSpec{Type: v1alpha1.RegistrationTypeCustomSigner, CustomSigner: &v1alpha1.CustomSignerRegistrationConfig{SignerName: s.SignerName.ValueString()}}
			if s.Subject != nil {
				spec.CustomSigner.Subject = &v1alpha1.Subject{
					User: s.Subject.User.ValueString(), Groups: attribute.Texts(s.Subject.Groups), OrganizationUnits: attribute.Texts(s.Subject.OrganizationUnits),
				}
			}
			if s.SigningCA != nil {
				spec.CustomSigner.SigningCA = v1alpha1.SigningCARef{Namespace: s.SigningCA.Namespace.ValueString(), Name: s.SigningCA.Name.ValueString()}
			}
			list = append(list, spec)
		}
	}
	return list
}

func (m hubPermissionModel) permission() v1alpha1.HubPermissionConfig {
	if c := m.CurrentCluster; c != nil {
		return v1alpha1.HubPermissionConfig{
			Type:           v1alpha1.HubPermissionsBindingCurrentCluster,
			CurrentCluster: &v1alpha1.CurrentClusterBindingConfig{ClusterRoleName: c.ClusterRoleName.ValueString()},
		}
	}
	permission := v1alpha1.HubPermissionConfig{Type: v1alpha1.HubPermissionsBindingSingleNamespace, SingleNamespace: &v1alpha1.SingleNamespaceBindingConfig{}}
	if s := m.SingleNamespace; s != nil && s.RoleRef != nil {
		permission.SingleNamespace.Namespace = s.Namespace.ValueString()
		permission.SingleNamespace.RoleRef = v1alpha1.RoleRef{APIGroup: rbacv1.GroupName, Kind: s.RoleRef.Kind.ValueString(), Name: s.RoleRef.Name.ValueString()}
	}
	return permission
}

// registrationModels are nil when there are none.
func registrationModels(list []v1alpha1.RegistrationSpec) []registrationModel {
	var models []registrationModel
	for _, spec := range list {
		var m registrationModel
		switch c := spec.CustomSigner; {
		case spec.Type == v1alpha1.RegistrationTypeKubeClient:
			m.KubeClient = &kubeClientModel{}
			if spec.KubeClient != nil {
				m.KubeClient.HubPermissions = permissionModels(spec.KubeClient.HubPermissions)
			}
		case c != nil:
			m.CustomSigner = &customSignerModel{
				SignerName: types.StringValue(c.SignerName),
				SigningCA:  &signingCAModel{Namespace: attribute.OptionalString(c.SigningCA.Namespace), Name: types.StringValue(c.SigningCA.Name)},
			}
			if s := c.Subject; s != nil {
				m.CustomSigner.Subject = &subjectModel{
					User: attribute.OptionalString(s.User), Groups: attribute.TextValues(s.Groups), OrganizationUnits: attribute.TextValues(s.OrganizationUnits),
				}
			}
		}
		models = append(models, m)
	}
	return models
}

func permissionModels(list []v1alpha1.HubPermissionConfig) []hubPermissionModel {
	var models []hubPermissionModel
	for _, p := range list {
		var m hubPermissionModel
		if c := p.CurrentCluster; c != nil && p.Type == v1alpha1.HubPermissionsBindingCurrentCluster {
			m.CurrentCluster = &currentClusterModel{ClusterRoleName: types.StringValue(c.ClusterRoleName)}
		}
		if s := p.SingleNamespace; s != nil && p.Type == v1alpha1.HubPermissionsBindingSingleNamespace {
			m.SingleNamespace = &singleNamespaceModel{
				Namespace: types.StringValue(s.Namespace), RoleRef: &roleRefModel{Kind: types.StringValue(s.RoleRef.Kind), Name: types.StringValue(s.RoleRef.Name)},
			}
		}
		models = append(models, m)
	}
	return models
}
