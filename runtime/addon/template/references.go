package template

import (
	"fmt"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// References are what an add-on is made from in a cluster, as its status says.
type References struct {
	// Template is the AddOnTemplate, with the hash that it has to have.
	Template v1alpha1.ConfigSpecHash
	// Config is the AddOnDeploymentConfig, with the hash that it has to have, and nil
	// for none.
	Config *v1alpha1.ConfigSpecHash
}

// NoTemplateError says that an add-on does not know its template yet: there is none in
// its status, or none that exists. That is so before the hub has resolved its
// configurations, and ends by itself unless nobody has named a template.
type NoTemplateError struct {
	AddOn string
	// Name is that of a template that does not exist, and "" where none is named.
	Name string
}

func (e *NoTemplateError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("addon %s template not found in status", e.AddOn)
	}
	return fmt.Sprintf("addon %s template desired spec hash is empty: there is no AddOnTemplate %q: create it, or name another one", e.AddOn, e.Name)
}

// ReferencesOf are the references of an add-on. Of several of one kind the first one
// counts, as upstream. The error is a NoTemplateError, or says that the deployment
// configuration does not exist.
func ReferencesOf(a *v1alpha1.ManagedClusterAddOn) (References, error) {
	var out References
	template := firstOf(a, addon.TemplateResource)
	if template == nil {
		return out, &NoTemplateError{AddOn: a.Name}
	}
	if template.SpecHash == "" {
		return out, &NoTemplateError{AddOn: a.Name, Name: template.Name}
	}
	out.Template, out.Config = *template, firstOf(a, addon.DeploymentConfigResource)
	if out.Config != nil && out.Config.SpecHash == "" {
		return out, fmt.Errorf("addon %s deployment config desired spec hash is empty: there is no AddOnDeploymentConfig \"%s/%s\":"+
			" create it, or name another one", a.Name, out.Config.Namespace, out.Config.Name)
	}
	return out, nil
}

// firstOf is the first configuration of a kind, and nil for none. One that says nothing
// of what is desired counts as one without a hash.
func firstOf(a *v1alpha1.ManagedClusterAddOn, resource string) *v1alpha1.ConfigSpecHash {
	for i := range a.Status.ConfigReferences {
		r := &a.Status.ConfigReferences[i]
		if r.Group != addon.GroupName || r.Resource != resource {
			continue
		}
		if r.DesiredConfig == nil {
			return &v1alpha1.ConfigSpecHash{ConfigReferent: r.ConfigReferent}
		}
		return r.DesiredConfig.DeepCopy()
	}
	return nil
}
