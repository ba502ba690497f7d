package policy_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/policy"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

func read(data map[string]string) policy.Policy {
	return policy.Read(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "muster-access-policy"}, Data: data})
}

type data = map[string]string

func TestPolicyJudges(t *testing.T) {
	for name, tc := range map[string]struct {
		policy data
		change func(*v1alpha1.ClusterCredentialSpec)
		want   string // in the refusal; "" for none
	}{
		"no entries":                       {nil, nil, ""},
		"enabled":                          {data{"enabled": " true\n"}, nil, ""},
		"switched off":                     {data{"enabled": "false"}, nil, "switched user access off"},
		"short enough":                     {data{"maxLifetimeSeconds": "3600"}, nil, ""},
		"too long":                         {data{"maxLifetimeSeconds": "3599"}, nil, "1h0m0s is asked for, and the cluster's owner allows 59m59s"},
		"another namespace is forbidden":   {data{"forbiddenNamespaces": "team-b"}, nil, ""},
		"the namespace is forbidden":       {data{"forbiddenNamespaces": "x, team-a"}, nil, "namespace team-a"},
		"forbidden by a pattern":           {data{"forbiddenNamespaces": "team-*"}, nil, "namespace team-a"},
		"a dot is a dot":                   {data{"forbiddenUsers": "jo@exampleXcom"}, nil, ""},
		"a part is not the whole":          {data{"forbiddenNamespaces": "team"}, nil, ""},
		"the namespace is allowed":         {data{"allowedNamespaces": "x\nteam-*"}, nil, ""},
		"only others are allowed":          {data{"allowedNamespaces": "x"}, nil, "namespace team-a"},
		"forbidden beats allowed":          {data{"allowedNamespaces": "*", "forbiddenNamespaces": "team-a"}, nil, "namespace team-a"},
		"the user is forbidden":            {data{"forbiddenUsers": "*@example.com"}, nil, `the user "jo@example.com"`},
		"the requester is forbidden":       {data{"forbiddenUsers": "ci"}, nil, `that the user "ci" asks for`},
		"user and requester are allowed":   {data{"allowedUsers": "jo@*,ci"}, nil, ""},
		"the requester is not allowed":     {data{"allowedUsers": "jo@*"}, nil, `that the user "ci" asks for`},
		"a line break hides no user":       {data{"forbiddenUsers": "al*"}, func(s *v1alpha1.ClusterCredentialSpec) { s.User = "al\nx" }, "the user"},
		"kube-system":                      {nil, func(s *v1alpha1.ClusterCredentialSpec) { s.Namespace = "kube-system" }, "belongs to Kubernetes"},
		"kube-anything":                    {nil, func(s *v1alpha1.ClusterCredentialSpec) { s.Namespace = "kube-x" }, "belongs to Kubernetes"},
		"default":                          {nil, func(s *v1alpha1.ClusterCredentialSpec) { s.Namespace = "default" }, "belongs to Kubernetes"},
		"the agent's":                      {nil, func(s *v1alpha1.ClusterCredentialSpec) { s.Namespace = "elsewhere" }, "or to the agent"},
		"an agent's usual one":             {nil, func(s *v1alpha1.ClusterCredentialSpec) { s.Namespace = "open-cluster-management-agent" }, "or to the agent"},
		"reserved namespaces can't be had": {data{"allowedNamespaces": "*"}, func(s *v1alpha1.ClusterCredentialSpec) { s.Namespace = "kube-system" }, "belongs to Kubernetes"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := v1alpha1.ClusterCredentialSpec{Namespace: "team-a", User: "jo@example.com", Requester: "ci", ExpirationSeconds: 3600}
			if tc.change != nil {
				tc.change(&spec)
			}
			p := read(tc.policy)
			if err := p.Problem(); err != nil {
				t.Fatal(err)
			}
			err := p.Refuses(spec, "elsewhere")
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want a refusal with %q", err, tc.want)
			}
		})
	}
}

func TestPolicyThatCannotBeReadRefusesEverything(t *testing.T) {
	for want, data := range map[string]data{
		`no key "enabeld"`:                            {"enabeld": "false"},
		`enabled is "no"`:                             {"enabled": "no"},
		`tunnels is "no"`:                             {"tunnels": "no"},
		`enabled is ""`:                               {"enabled": ""},
		`modes has "certificate"`:                     {"modes": "certificate"},
		`modes has "Auto"`:                            {"modes": "Auto"},
		"modes is empty":                              {"modes": " , "},
		`maxLifetimeSeconds is "1h"`:                  {"maxLifetimeSeconds": "1h"},
		`maxLifetimeSeconds is "599"`:                 {"maxLifetimeSeconds": "599"},
		`maxLifetimeSeconds is "-1"`:                  {"maxLifetimeSeconds": "-1"},
		`maxLifetimeSeconds is "99999999999999999"`:   {"maxLifetimeSeconds": "99999999999999999"},
		"allowedNamespaces is empty":                  {"allowedNamespaces": ""},
		"forbiddenUsers is empty":                     {"forbiddenUsers": "\n"},
		"ConfigMap ns/muster-access-policy can't be":  {"x": "y"},
		"use enabled, modes, maxLifetimeSeconds, all": {"x": "y"},
	} {
		p := read(data)
		spec := v1alpha1.ClusterCredentialSpec{Namespace: "team-a", User: "jo", Requester: "jo", ExpirationSeconds: 3600}
		if err := p.Refuses(spec, "x"); err == nil || err != p.Problem() || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want a refusal with %q", data, err, want)
		}
	}
	if p := policy.Read(&corev1.ConfigMap{BinaryData: map[string][]byte{"enabled": []byte("false")}}); p.Problem() == nil {
		t.Error("binary data is ignored")
	}
	if p := policy.Read(nil); p.Problem() != nil {
		t.Error("an absent policy is a broken one")
	}
}

func TestPolicyJudgesTunnels(t *testing.T) {
	for name, tc := range map[string]struct {
		policy data
		want   string
	}{
		"no entries":             {nil, ""},
		"allowed":                {data{"tunnels": " true"}, ""},
		"not allowed":            {data{"tunnels": "false"}, "the cluster's owner does not allow tunnels"},
		"access is not allowed":  {data{"tunnels": "true", "forbiddenUsers": "jo@*"}, `the user "jo@example.com"`},
		"a mistake allows none":  {data{"tunnels": "flase"}, `tunnels is "flase": use true or false`},
		"a word that is unknown": {data{"tunnel": "true"}, `there is no key "tunnel"`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := v1alpha1.ClusterCredentialSpec{
				Namespace: "team-a", User: "jo@example.com", Requester: "ci", ExpirationSeconds: 3600,
			}
			err := read(tc.policy).RefusesTunnel(spec, "elsewhere")
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestModes(t *testing.T) {
	const certificate, token, auto = v1alpha1.AccessCertificate, v1alpha1.AccessToken, v1alpha1.AccessAuto
	for _, tc := range []struct {
		policy string
		asked  v1alpha1.AccessMode
		want   string
	}{
		{"", auto, "Certificate and Token"},
		{"", certificate, "Certificate"},
		{"", token, "Token"},
		{"Token", auto, "Token"},
		{"Token", certificate, ""},
		{"Certificate", token, ""},
		{"Certificate,Token", auto, "Certificate and Token"},
	} {
		var d data
		if tc.policy != "" {
			d = data{"modes": tc.policy}
		}
		modes, err := read(d).Modes(tc.asked)
		var words []string
		for _, m := range modes {
			words = append(words, string(m))
		}
		if got := strings.Join(words, " and "); got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("modes %q, asked for %s: got %q, %v, want %q", tc.policy, tc.asked, got, err, tc.want)
		}
	}
}
