// Package conversion converts add-ons between the two versions of their API,
// v1alpha1, which is stored, and v1beta1, which newer clients speak.
//
// It follows upstream's conversion, so that each client finds what it expects:
//
//   - supportedConfigs of a ClusterManagementAddOn are defaultConfigs in v1beta1,
//     where a reserved name stands for "no default";
//   - spec.installNamespace of a ManagedClusterAddOn is an annotation in v1beta1;
//   - status.registrations have their type in v1beta1, and by the signer's name in
//     v1alpha1; the driver for the hub's API is one for all of an add-on's
//     registrations in v1alpha1.
//
// Where upstream drops a field that v1beta1 does not have, an annotation carries
// it here. A field that is set to nothing, such as an empty list, is as good as
// one that is absent.
package conversion

import (
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

// Convert converts one object, in JSON, to another version of its API. It fails
// when the object is not JSON of its kind, when it is not an add-on, or when there is
// no such version. Lists are to be converted item by item.
func Convert(object []byte, apiVersion string) ([]byte, error) {
	head := &metav1.PartialObjectMetadata{}
	if err := kjson.Unmarshal(object, &head.TypeMeta); err != nil {
		return nil, fmt.Errorf("read the kind of the object to convert: %w", err)
	}
	if head.APIVersion == apiVersion {
		return object, nil
	}
	convert, ok := conversions[direction{head.Kind, head.APIVersion, apiVersion}]
	if !ok {
		return nil, fmt.Errorf("there is no conversion of %s %q to %q: the kinds are ClusterManagementAddOn and ManagedClusterAddOn, the versions %s and %s",
			head.APIVersion, head.Kind, apiVersion, v1alpha1.GroupVersion, v1beta1.GroupVersion)
	}
	converted, err := convert(object)
	if err != nil {
		// Its name, if that can be read at all.
		_ = kjson.Unmarshal(object, head)
		return nil, fmt.Errorf("convert the %s %s/%s from %s to %s: %w", head.Kind, head.Namespace, head.Name, head.APIVersion, apiVersion, err)
	}
	return converted, nil
}

// direction is a kind and the versions to convert from and to.
type direction struct{ kind, from, to string }

var conversions = map[direction]func([]byte) ([]byte, error){
	{"ClusterManagementAddOn", v1alpha1.GroupVersion.String(), v1beta1.GroupVersion.String()}: typed(ClusterManagementAddOnToV1beta1),
	{"ClusterManagementAddOn", v1beta1.GroupVersion.String(), v1alpha1.GroupVersion.String()}: typed(ClusterManagementAddOnToV1alpha1),
	{"ManagedClusterAddOn", v1alpha1.GroupVersion.String(), v1beta1.GroupVersion.String()}:    typed(ManagedClusterAddOnToV1beta1),
	{"ManagedClusterAddOn", v1beta1.GroupVersion.String(), v1alpha1.GroupVersion.String()}:    typed(ManagedClusterAddOnToV1alpha1),
}

// typed converts JSON by a function of types.
func typed[From, To any](convert func(*From) *To) func([]byte) ([]byte, error) {
	return func(object []byte) ([]byte, error) {
		in := new(From)
		// Case matters: the versions have fields that differ in nothing else.
		if err := kjson.Unmarshal(object, in); err != nil {
			return nil, err
		}
		return json.Marshal(convert(in))
	}
}

func typeMeta(version schema.GroupVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version.String(), Kind: kind}
}

// each maps a list; nothing stays nothing.
func each[From, To any](in []From, f func(From) To) []To {
	if len(in) == 0 {
		return nil
	}
	out := make([]To, len(in))
	for i := range in {
		out[i] = f(in[i])
	}
	return out
}

// ClusterManagementAddOnToV1beta1 converts from v1alpha1. The result shares
// memory with in.
func ClusterManagementAddOnToV1beta1(in *v1alpha1.ClusterManagementAddOn) *v1beta1.ClusterManagementAddOn {
	out := &v1beta1.ClusterManagementAddOn{
		TypeMeta:   typeMeta(v1beta1.GroupVersion, "ClusterManagementAddOn"),
		ObjectMeta: in.ObjectMeta,
		Spec: v1beta1.ClusterManagementAddOnSpec{
			AddOnMeta:       in.Spec.AddOnMeta,
			DefaultConfigs:  each(in.Spec.SupportedConfigs, defaultConfig),
			InstallStrategy: in.Spec.InstallStrategy,
		},
		Status: v1beta1.ClusterManagementAddOnStatus{
			DefaultConfigReferences: in.Status.DefaultConfigReferences,
			InstallProgressions:     in.Status.InstallProgressions,
		},
	}
	out.Annotations = withOlderFields(out.Annotations, olderFields{AddOnConfiguration: in.Spec.AddOnConfiguration})
	return out
}

// ClusterManagementAddOnToV1alpha1 converts from v1beta1. The result shares
// memory with in.
func ClusterManagementAddOnToV1alpha1(in *v1beta1.ClusterManagementAddOn) *v1alpha1.ClusterManagementAddOn {
	out := &v1alpha1.ClusterManagementAddOn{
		TypeMeta:   typeMeta(v1alpha1.GroupVersion, "ClusterManagementAddOn"),
		ObjectMeta: in.ObjectMeta,
		Spec: v1alpha1.ClusterManagementAddOnSpec{
			AddOnMeta:        in.Spec.AddOnMeta,
			SupportedConfigs: each(in.Spec.DefaultConfigs, supportedConfig),
			InstallStrategy:  in.Spec.InstallStrategy,
		},
		Status: v1alpha1.ClusterManagementAddOnStatus{
			DefaultConfigReferences: in.Status.DefaultConfigReferences,
			InstallProgressions:     in.Status.InstallProgressions,
		},
	}
	older, annotations := takeOlderFields(out.Annotations)
	out.Annotations = annotations
	out.Spec.AddOnConfiguration = older.AddOnConfiguration
	return out
}

// defaultConfig says in one what v1alpha1 says in two: that a kind of
// configuration is supported, and which one is the default.
func defaultConfig(in v1alpha1.ConfigMeta) v1beta1.AddOnConfig {
	out := v1beta1.AddOnConfig{ConfigGroupResource: in.ConfigGroupResource}
	if in.DefaultConfig == nil {
		out.Name = addon.ReservedNoDefault
		return out
	}
	out.ConfigReferent = *in.DefaultConfig
	return out
}

func supportedConfig(in v1beta1.AddOnConfig) v1alpha1.ConfigMeta {
	out := v1alpha1.ConfigMeta{ConfigGroupResource: in.ConfigGroupResource}
	if in.Name != "" && in.Name != addon.ReservedNoDefault {
		referent := in.ConfigReferent
		out.DefaultConfig = &referent
	}
	return out
}

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
