package addon

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// Between the model of a template and the API's object, there and back.

// owned is the template as an object of the hub. Credentials, rights and options that
// somebody else adds contradict the configuration. Its manifests may hold secrets.
func (m *templateModel) owned(object *v1alpha1.AddOnTemplate) crud.Owned {
	o := crud.Own(object, m.What(), m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Discreet = true
	o.Write.Unwanted = func(live kube.Object) [][]string {
		template, ok := live.(*v1alpha1.AddOnTemplate)
		if !ok {
			return nil
		}
		var paths [][]string
		if !sameRegistrations(object.Spec.Registration, template.Spec.Registration) {
			paths = append(paths, []string{"spec", "registration"})
		}
		if len(object.Spec.AgentSpec.ManifestConfigs) == 0 && len(template.Spec.AgentSpec.ManifestConfigs) > 0 {
			paths = append(paths, []string{"spec", "agentSpec", "manifestConfigs"})
		}
		return paths
	}
	return o
}

// object is the AddOnTemplate that the model describes, without its objects.
func (m *templateModel) object() *v1alpha1.AddOnTemplate {
	object := &v1alpha1.AddOnTemplate{}
	object.Name = m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	object.Spec.AddonName = m.AddOnName.ValueString()
	object.Spec.AgentSpec.ManifestConfigs = manifestwork.ManifestConfigs(m.ManifestConfigs)
	object.Spec.Registration = registrationsOf(m.Registration)
	return object
}

func templateLive(object *v1alpha1.AddOnTemplate) workload.Live {
	return workload.Live{Manifests: object.Spec.AgentSpec.Workload.Manifests, Annotations: object.Annotations}
}

// observe brings up to date what the model owns, and keeps its wording where it means
// the same as what the hub has.
func (m *templateModel) observe(object *v1alpha1.AddOnTemplate) error {
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	m.AddOnName = types.StringValue(object.Spec.AddonName)
	if !attribute.Same(manifestwork.ManifestConfigs(m.ManifestConfigs), object.Spec.AgentSpec.ManifestConfigs) {
		m.ManifestConfigs = manifestwork.ManifestConfigModels(object.Spec.AgentSpec.ManifestConfigs)
	}
	if !sameRegistrations(registrationsOf(m.Registration), object.Spec.Registration) {
		m.Registration = registrationModels(object.Spec.Registration)
	}
	return m.Observe(templateLive(object))
}

func importTemplate(object *v1alpha1.AddOnTemplate) (crud.Model, error) {
	owned := ownership.Of(object, hub.FieldManager)
	ours := func(key string) bool { return key != work.WriteOnlyAnnotation && attribute.ImportableAnnotation(key) }
	m := &templateModel{
		Name:            types.StringValue(object.Name),
		AddOnName:       types.StringValue(object.Spec.AddonName),
		Labels:          attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, func(string) bool { return true }),
		Annotations:     attribute.ImportedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations, ours),
		ManifestConfigs: manifestwork.ManifestConfigModels(object.Spec.AgentSpec.ManifestConfigs),
		Registration:    registrationModels(object.Spec.Registration),
		Timeouts:        attribute.NullTimeouts("delete"),
	}
	var err error
	m.Content, err = workload.Import(templateLive(object))
	return m, err
}
