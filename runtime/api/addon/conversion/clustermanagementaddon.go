package conversion

import (
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

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
