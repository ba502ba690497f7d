package template_test

import (
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
)

func TestImagesComeFromRegistries(t *testing.T) {
	for name, x := range map[string]struct{ image, registries, want string }{
		"a registry":                         {"quay.io/team/agent:v1", `[{source: quay.io, mirror: m.example.org}]`, "m.example.org/team/agent:v1"},
		"slashes at the ends":                {"quay.io/team/agent:v1", `[{source: quay.io/, mirror: m.example.org/}]`, "m.example.org/team/agent:v1"},
		"a whole image":                      {"quay.io/team/agent:v1", `[{source: quay.io/team/agent, mirror: m.example.org/other}]`, "m.example.org/other:v1"},
		"with its tag":                       {"quay.io/team/agent:v1", `[{source: "quay.io/team/agent:v1", mirror: "m.example.org/other:v2"}]`, "m.example.org/other:v2"},
		"a digest":                           {"quay.io/team/agent@sha256:0123", `[{source: quay.io/team, mirror: m.example.org}]`, "m.example.org/agent@sha256:0123"},
		"tag and digest":                     {"quay.io/team/agent:v1@sha256:0123", `[{mirror: m.example.org}]`, "m.example.org/agent:v1@sha256:0123"},
		"a port":                             {"localhost:5000/agent", `[{source: "localhost:5000", mirror: "m.example.org:443/x"}]`, "m.example.org:443/x/agent"},
		"a port, without source":             {"localhost:5000/team/agent:v1", `[{mirror: "m.example.org:443"}]`, "m.example.org:443/agent:v1"},
		"a name alone":                       {"agent", `[{mirror: m.example.org}]`, "m.example.org/agent"},
		"neither source nor mirror":          {"quay.io/team/agent:v1", `[{mirror: ""}]`, "agent:v1"},
		"no mirror":                          {"quay.io/team/agent:v1", `[{source: quay.io/team, mirror: ""}]`, "agent:v1"},
		"another registry":                   {"docker.io/team/agent", `[{source: quay.io, mirror: m.example.org}]`, "docker.io/team/agent"},
		"a beginning, as upstream":           {"quay.io/team-b/agent", `[{source: quay.io/team, mirror: m.example.org}]`, "m.example.org-b/agent"},
		"the last that fits":                 {"quay.io/team/agent", `[{source: quay.io, mirror: a}, {source: quay.io/team, mirror: b}, {source: docker.io, mirror: c}]`, "b/agent"},
		"each looks at the template's image": {"quay.io/agent", `[{source: quay.io, mirror: a}, {source: a, mirror: b}]`, "a/agent"},
		"one that changes nothing":           {"quay.io/agent", `[{source: quay.io, mirror: a}, {source: quay.io, mirror: quay.io}]`, "a/agent"},
		"an empty image":                     {"", `[{mirror: m.example.org}]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := template.Render(input(sourceOf(t, pods(`{containers: [{name: a, image: "`+x.image+`"}]}`), ""), settings(t, `{registries: `+x.registries+`}`)))
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, pods(`{containers: [{name: a, image: "`+x.want+`", env: [{name: CLUSTER_NAME, value: paris}]}]}`))
		})
	}
}

func TestContainersOfResourceRequirements(t *testing.T) {
	const id, daemonSet = "deployments:agent:main", `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent, namespace: own}, spec: {template: {spec: {containers: [{name: main}]}}}}`
	for name, x := range map[string]struct {
		containerID         string
		deployment, daemons bool
	}{
		"one container":                   {"deployments:agent:main", true, false},
		"each part":                       {"*:*:*", true, true},
		"any kind":                        {"*:*:main", true, true},
		"one kind":                        {"daemonsets:*:*", false, true},
		"another object":                  {"deployments:other:main", false, false},
		"a beginning is not the whole":    {"deployments:age:main", false, false},
		"a star in a part is no pattern":  {"deployments:agen*:main", false, false},
		"an expression":                   {"deployments:agen.*:m[a-z]+", true, false},
		"alternatives stay in their part": {"deployments:agent|other:nothing|main", true, false},
		"alternatives are whole":          {"deployments:agent:mai|x", false, false},
		"alternatives do not open a part": {"statefulsets:x|agent:main", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := template.Render(input(sourceOf(t, pods(`{containers: [{name: main}]}`)+"\n---\n"+daemonSet, ""),
				settings(t, `{resourceRequirements: [{containerID: "`+x.containerID+`", resources: {limits: {cpu: 1}}}]}`)))
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []bool{x.deployment, x.daemons} {
				container := containersOf(t, got.Objects[i])[0]
				if _, has := container["resources"]; has != want {
					t.Errorf("the container of the %s has resources: %v, want %v", got.Objects[i].GetKind(), has, want)
				}
			}
		})
	}
}
