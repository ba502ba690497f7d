package template_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// referring is an add-on whose status refers to configurations, each as
// "resource/name=hash", or without the hash, or with "-" for nothing desired.
func referring(references ...string) *v1alpha1.ManagedClusterAddOn {
	a := &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: "search"}}
	for _, r := range references {
		id, hash, _ := strings.Cut(r, "=")
		resource, name, _ := strings.Cut(id, "/")
		group := "addon.open-cluster-management.io"
		if foreign, found := strings.CutPrefix(resource, "other:"); found {
			group, resource = "example.org", foreign
		}
		c := v1alpha1.ConfigReference{ConfigGroupResource: v1alpha1.ConfigGroupResource{Group: group, Resource: resource}}
		if hash != "-" {
			c.DesiredConfig = &v1alpha1.ConfigSpecHash{ConfigReferent: v1alpha1.ConfigReferent{Name: name}, SpecHash: hash}
		} else {
			c.ConfigReferent.Name = name
		}
		a.Status.ConfigReferences = append(a.Status.ConfigReferences, c)
	}
	return a
}

func TestReferences(t *testing.T) {
	for name, x := range map[string]struct {
		references []string
		want, err  string
		noTemplate bool
	}{
		"none":                       {nil, "", "addon search template not found in status", true},
		"no template":                {[]string{"addondeploymentconfigs/c=1"}, "", "addon search template not found in status", true},
		"another group":              {[]string{"other:addontemplates/t=1"}, "", "addon search template not found in status", true},
		"a template that is missing": {[]string{"addontemplates/t"}, "", `addon search template desired spec hash is empty: there is no AddOnTemplate "t"`, true},
		"nothing desired":            {[]string{"addontemplates/t=-"}, "", `there is no AddOnTemplate "t"`, true},
		"a template":                 {[]string{"addontemplates/t=1"}, "t=1", "", false},
		"the first of two":           {[]string{"addontemplates/t=1", "addontemplates/u=2"}, "t=1", "", false},
		"the first, which is missing": {[]string{"addontemplates/t", "addontemplates/u=2"}, "",
			`there is no AddOnTemplate "t"`, true},
		"a configuration": {[]string{"addondeploymentconfigs/c=2", "addontemplates/t=1"}, "t=1 c=2", "", false},
		"the first configuration": {[]string{"addondeploymentconfigs/c=2", "addondeploymentconfigs/d=3", "addontemplates/t=1"},
			"t=1 c=2", "", false},
		"a configuration that is missing": {[]string{"addondeploymentconfigs/c", "addontemplates/t=1"}, "",
			`addon search deployment config desired spec hash is empty: there is no AddOnDeploymentConfig "/c"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := template.ReferencesOf(referring(x.references...))
			if x.err != "" {
				if err == nil || !strings.Contains(err.Error(), x.err) {
					t.Errorf("got %v, want %q", err, x.err)
				}
				if no := new(template.NoTemplateError); errors.As(err, &no) != x.noTemplate {
					t.Errorf("%v says that there is no template: %v, want %v", err, !x.noTemplate, x.noTemplate)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text := got.Template.Name + "=" + got.Template.SpecHash
			if got.Config != nil {
				text += " " + got.Config.Name + "=" + got.Config.SpecHash
			}
			if text != x.want {
				t.Errorf("got %q, want %q", text, x.want)
			}
		})
	}
}
