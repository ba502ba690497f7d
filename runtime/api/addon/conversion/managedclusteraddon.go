package conversion

import (
	"maps"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

// ManagedClusterAddOnToV1beta1 converts from v1alpha1. The result shares memory
// with in.
func ManagedClusterAddOnToV1beta1(in *v1alpha1.ManagedClusterAddOn) *v1beta1.ManagedClusterAddOn {
	out := &v1beta1.ManagedClusterAddOn{
		TypeMeta:   typeMeta(v1beta1.GroupVersion, "ManagedClusterAddOn"),
		ObjectMeta: in.ObjectMeta,
		Spec:       v1beta1.ManagedClusterAddOnSpec{Configs: in.Spec.Configs},
		Status: v1beta1.ManagedClusterAddOnStatus{
			Conditions:       in.Status.Conditions,
			RelatedObjects:   in.Status.RelatedObjects,
			AddOnMeta:        in.Status.AddOnMeta,
			SupportedConfigs: in.Status.SupportedConfigs,
			Namespace:        in.Status.Namespace,
			HealthCheck:      in.Status.HealthCheck,
			ConfigReferences: each(in.Status.ConfigReferences, func(r v1alpha1.ConfigReference) v1beta1.ConfigReference {
				return v1beta1.ConfigReference{
					ConfigGroupResource:    r.ConfigGroupResource,
					LastObservedGeneration: r.LastObservedGeneration,
					DesiredConfig:          r.DesiredConfig,
					LastAppliedConfig:      r.LastAppliedConfig,
				}
			}),
			Registrations: each(in.Status.Registrations, func(r v1alpha1.RegistrationConfig) v1beta1.RegistrationConfig {
				return typedRegistration(r, in.Status.KubeClientDriver)
			}),
		},
	}
	out.Annotations = withOlderFields(out.Annotations, olderStatus(&in.Status))
	if namespace := in.Spec.InstallNamespace; namespace != "" {
		annotations := maps.Clone(out.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[addon.InstallNamespaceAnnotation] = namespace
		out.Annotations = annotations
	}
	return out
}

// ManagedClusterAddOnToV1alpha1 converts from v1beta1. The result shares memory
// with in.
func ManagedClusterAddOnToV1alpha1(in *v1beta1.ManagedClusterAddOn) *v1alpha1.ManagedClusterAddOn {
	out := &v1alpha1.ManagedClusterAddOn{
		TypeMeta:   typeMeta(v1alpha1.GroupVersion, "ManagedClusterAddOn"),
		ObjectMeta: in.ObjectMeta,
		Spec:       v1alpha1.ManagedClusterAddOnSpec{Configs: in.Spec.Configs},
		Status: v1alpha1.ManagedClusterAddOnStatus{
			Conditions:       in.Status.Conditions,
			RelatedObjects:   in.Status.RelatedObjects,
			AddOnMeta:        in.Status.AddOnMeta,
			SupportedConfigs: in.Status.SupportedConfigs,
			Namespace:        in.Status.Namespace,
			HealthCheck:      in.Status.HealthCheck,
			KubeClientDriver: firstDriver(in.Status.Registrations),
			Registrations:    each(in.Status.Registrations, signedRegistration),
			ConfigReferences: each(in.Status.ConfigReferences, func(r v1beta1.ConfigReference) v1alpha1.ConfigReference {
				return v1alpha1.ConfigReference{
					ConfigGroupResource:    r.ConfigGroupResource,
					ConfigReferent:         referentOf(r.DesiredConfig),
					LastObservedGeneration: r.LastObservedGeneration,
					DesiredConfig:          r.DesiredConfig,
					LastAppliedConfig:      r.LastAppliedConfig,
				}
			}),
		},
	}
	older, annotations := takeOlderFields(out.Annotations)
	if namespace, ok := annotations[addon.InstallNamespaceAnnotation]; ok {
		out.Spec.InstallNamespace = namespace
		annotations = without(annotations, addon.InstallNamespaceAnnotation)
	}
	out.Annotations = annotations
	older.restore(&out.Status)
	return out
}

// referentOf is what v1alpha1 repeats of a desired configuration for clients
// from before there was one.
func referentOf(desired *v1alpha1.ConfigSpecHash) v1alpha1.ConfigReferent {
	if desired == nil {
		return v1alpha1.ConfigReferent{}
	}
	return desired.ConfigReferent
}

// typedRegistration is the type of a registration, which follows from its signer. The driver is
// of all registrations for the hub's API, as v1alpha1 has one for the add-on.
func typedRegistration(in v1alpha1.RegistrationConfig, driver string) v1beta1.RegistrationConfig {
	if in.SignerName == addon.KubeClientSigner {
		return v1beta1.RegistrationConfig{
			Type: v1beta1.RegistrationTypeKubeClient,
			KubeClient: &v1beta1.KubeClientConfig{
				Subject: v1beta1.KubeClientSubject{User: in.Subject.User, Groups: in.Subject.Groups},
				Driver:  driver,
			},
		}
	}
	return v1beta1.RegistrationConfig{
		Type: v1beta1.RegistrationTypeCustomSigner,
		CustomSigner: &v1beta1.CustomSignerConfig{
			SignerName: in.SignerName,
			Subject:    v1beta1.Subject{User: in.Subject.User, Groups: in.Subject.Groups, OrganizationUnits: in.Subject.OrganizationUnits},
		},
	}
}

func signedRegistration(in v1beta1.RegistrationConfig) v1alpha1.RegistrationConfig {
	if in.Type == v1beta1.RegistrationTypeKubeClient {
		out := v1alpha1.RegistrationConfig{SignerName: addon.KubeClientSigner}
		if k := in.KubeClient; k != nil {
			out.Subject = v1alpha1.Subject{User: k.Subject.User, Groups: k.Subject.Groups}
		}
		return out
	}
	out := v1alpha1.RegistrationConfig{}
	if s := in.CustomSigner; s != nil {
		out.SignerName = s.SignerName
		out.Subject = v1alpha1.Subject{User: s.Subject.User, Groups: s.Subject.Groups, OrganizationUnits: s.Subject.OrganizationUnits}
	}
	return out
}

// firstDriver is the driver of the first registration for the hub's API, which is
// the one that agents write it into.
func firstDriver(registrations []v1beta1.RegistrationConfig) string {
	for _, r := range registrations {
		if r.Type == v1beta1.RegistrationTypeKubeClient && r.KubeClient != nil {
			return r.KubeClient.Driver
		}
	}
	return ""
}
