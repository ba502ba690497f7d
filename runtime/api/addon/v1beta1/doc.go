// Package v1beta1 holds the newer version of the API group
// addon.open-cluster-management.io. It is served beside v1alpha1, which is the
// stored one; package v1alpha1 explains the kinds.
//
// What differs from v1alpha1:
//
//   - ClusterManagementAddOn: spec.supportedConfigs, each with an optional default,
//     becomes spec.defaultConfigs; a kind of configuration without a default has the
//     reserved name addon.ReservedNoDefaultConfigName. spec.addOnConfiguration is
//     gone. status.defaultconfigReferences is spelled defaultConfigReferences.
//   - ManagedClusterAddOn: spec.installNamespace becomes an annotation;
//     status.addOnConfiguration is gone; status.registrations says the type of each
//     registration, and the driver of the one for the hub's API, instead of telling
//     them apart by the signer's name.
//
// +kubebuilder:object:generate=true
// +groupName=addon.open-cluster-management.io
package v1beta1
