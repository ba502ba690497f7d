package registration_test

import (
	"reflect"
	"strings"
	"testing"

	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
)

const (
	defaultUser = "system:open-cluster-management:cluster:c1:addon:a:agent:a"
	account     = "system:serviceaccount:c1:a-agent"
	kubeSigner  = "kubernetes.io/kube-apiserver-client"
)

func forHub(driver, user string, groups ...string) addonv1beta1.RegistrationConfig {
	return addonv1beta1.RegistrationConfig{
		Type:       addonv1beta1.RegistrationTypeKubeClient,
		KubeClient: &addonv1beta1.KubeClientConfig{Driver: driver, Subject: addonv1beta1.KubeClientSubject{User: user, Groups: groups}},
	}
}

func signedBy(signer, user string, groups, units []string) addonv1beta1.RegistrationConfig {
	return addonv1beta1.RegistrationConfig{
		Type: addonv1beta1.RegistrationTypeCustomSigner,
		CustomSigner: &addonv1beta1.CustomSignerConfig{
			SignerName: signer, Subject: addonv1beta1.Subject{User: user, Groups: groups, OrganizationUnits: units},
		},
	}
}

func TestRegistrationsOfAnAddOn(t *testing.T) {
	groups := registration.Groups("c1", "a")
	hub := func(driver, signer, user string, groups []string) registration.Registration {
		return registration.Registration{
			Cluster: "c1", AddOn: "a", Type: "kubeClient", Driver: driver, Signer: signer, User: user, Groups: groups,
			Namespace: "open-cluster-management-agent-addon",
		}
	}
	custom := func(signer, user string, groups, units []string) registration.Registration {
		return registration.Registration{
			Cluster: "c1", AddOn: "a", Type: "customSigner", Signer: signer, User: user, Groups: groups, OrganizationUnits: units,
			Namespace: "open-cluster-management-agent-addon",
		}
	}
	for name, x := range map[string]struct {
		registrations []addonv1beta1.RegistrationConfig
		want          []registration.Registration
		problem       string
	}{
		"none":                         {nil, nil, ""},
		"for the hub, whole":           {list(forHub("csr", "u", "g")), all(hub("csr", kubeSigner, "u", []string{"g"})), ""},
		"no driver":                    {list(forHub("", "u", "g")), all(hub("csr", kubeSigner, "u", []string{"g"})), ""},
		"no subject":                   {list(forHub("csr", "")), all(hub("csr", kubeSigner, defaultUser, groups)), ""},
		"no user":                      {list(forHub("csr", "", "g")), all(hub("csr", kubeSigner, defaultUser, []string{"g"})), ""},
		"the subject of a token":       {list(forHub("csr", account)), all(hub("csr", kubeSigner, defaultUser, groups)), ""},
		"token":                        {list(forHub("token", "u", "g")), all(hub("token", "", account, nil)), ""},
		"signer, whole":                {list(signedBy("x.io/s", "u", []string{"g"}, []string{"ou"})), all(custom("x.io/s", "u", []string{"g"}, []string{"ou"})), ""},
		"signer, no subject":           {list(signedBy("x.io/s", "", nil, nil)), all(custom("x.io/s", defaultUser, nil, nil)), ""},
		"no block for the hub":         {list(addonv1beta1.RegistrationConfig{Type: "kubeClient"}, signedBy("x.io/s", "u", nil, nil)), all(custom("x.io/s", "u", nil, nil)), "registrations[0] is left out: its type is kubeClient and kubeClient is missing"},
		"no block of a signer":         {list(addonv1beta1.RegistrationConfig{Type: "customSigner"}, forHub("csr", "u", "g")), all(hub("csr", kubeSigner, "u", []string{"g"})), "customSigner.signerName is missing"},
		"no signer":                    {list(signedBy("", "u", nil, nil)), nil, "customSigner.signerName is missing"},
		"the hub's own as a signer":    {list(signedBy(kubeSigner, "system:admin", nil, nil)), nil, "which the type kubeClient is for"},
		"unknown type":                 {list(addonv1beta1.RegistrationConfig{Type: "x"}, forHub("csr", "u", "g")), all(hub("csr", kubeSigner, "u", []string{"g"})), `its type "x" is unknown`},
		"no type":                      {list(addonv1beta1.RegistrationConfig{}), nil, `its type "" is unknown`},
		"two for the hub":              {list(forHub("csr", "u", "g"), forHub("csr", "v", "g")), all(hub("csr", kubeSigner, "u", []string{"g"})), "registrations[1] is left out: its Secret a-hub-kubeconfig is that of an earlier one"},
		"two signers":                  {list(signedBy("x.io/s", "u", nil, nil), signedBy("x.io/t", "u", nil, nil)), all(custom("x.io/s", "u", nil, nil), custom("x.io/t", "u", nil, nil)), ""},
		"one signer twice":             {list(signedBy("x.io/s", "u", nil, nil), signedBy("x.io/s", "v", nil, nil)), all(custom("x.io/s", "u", nil, nil)), "its Secret a-x.io-s-client-cert is that of an earlier one"},
		"token beside a custom signer": {list(forHub("token", ""), signedBy("x.io/s", "u", nil, nil)), all(hub("token", "", account, nil), custom("x.io/s", "u", nil, nil)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := registration.Of(addOn(x.registrations))
			if !reflect.DeepEqual(got, x.want) {
				t.Errorf("got\n%+v, want\n%+v", got, x.want)
			}
			if (err == nil) != (x.problem == "") || err != nil && !strings.Contains(err.Error(), x.problem) {
				t.Errorf("got the problem %v, want %q", err, x.problem)
			}
		})
	}
}

func list(c ...addonv1beta1.RegistrationConfig) []addonv1beta1.RegistrationConfig { return c }

func all(r ...registration.Registration) []registration.Registration { return r }

func TestSetDriver(t *testing.T) {
	for name, x := range map[string]struct {
		driver       string
		before, want []addonv1beta1.RegistrationConfig
		changed      bool
	}{
		"no registration":                     {"csr", nil, nil, false},
		"only a signer":                       {"csr", list(signedBy("x.io/s", "", nil, nil)), list(signedBy("x.io/s", "", nil, nil)), false},
		"none yet":                            {"csr", list(forHub("", "u", "g")), list(forHub("csr", "u", "g")), true},
		"there already":                       {"csr", list(forHub("csr", "u", "g")), list(forHub("csr", "u", "g")), false},
		"no block":                            {"csr", list(addonv1beta1.RegistrationConfig{Type: "kubeClient"}), list(forHub("csr", "")), true},
		"behind a signer":                     {"csr", list(signedBy("x.io/s", "", nil, nil), forHub("", "u")), list(signedBy("x.io/s", "", nil, nil), forHub("csr", "u")), true},
		"the first one only":                  {"csr", list(forHub("", "u"), forHub("", "v")), list(forHub("csr", "u"), forHub("", "v")), true},
		"to token":                            {"token", list(forHub("csr", "u", "g")), list(forHub("token", account)), true},
		"token, and the hub wrote a subject":  {"token", list(forHub("token", "u", "g")), list(forHub("token", account)), true},
		"token, and the hub added a group":    {"token", list(forHub("token", account, "g")), list(forHub("token", account)), true},
		"token there already":                 {"token", list(forHub("token", account)), list(forHub("token", account)), false},
		"back to csr, so that the hub starts": {"csr", list(forHub("token", account)), list(forHub("csr", "")), true},
	} {
		t.Run(name, func(t *testing.T) {
			a := addOn(x.before)
			if changed := registration.SetDriver(a, x.driver); changed != x.changed {
				t.Errorf("changed: %t", changed)
			}
			for i := range a.Status.Registrations {
				if k := a.Status.Registrations[i].KubeClient; k != nil && len(k.Subject.Groups) == 0 {
					k.Subject.Groups = nil
				}
			}
			if !reflect.DeepEqual(a.Status.Registrations, x.want) {
				t.Errorf("got %+v, want %+v", a.Status.Registrations, x.want)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	r := registration.Registration{
		Cluster: "c1", AddOn: "a", Type: "kubeClient", Driver: "csr", Signer: kubeSigner, User: "u",
		Groups: []string{"g", "h"}, OrganizationUnits: []string{"ou"}, Namespace: "ns",
	}
	seen := map[string]string{r.Identity(): "the same"}
	for name, change := range map[string]func(*registration.Registration){
		"cluster": func(r *registration.Registration) { r.Cluster = "c2" },
		"add-on":  func(r *registration.Registration) { r.AddOn = "b" },
		"type":    func(r *registration.Registration) { r.Type = "customSigner" },
		"driver":  func(r *registration.Registration) { r.Driver = "token" },
		"signer":  func(r *registration.Registration) { r.Signer = "x.io/s" },
		"user":    func(r *registration.Registration) { r.User = "v" },
		"groups":  func(r *registration.Registration) { r.Groups = []string{"g"} },
		"units":   func(r *registration.Registration) { r.OrganizationUnits = nil },
		"a unit that was a group": func(r *registration.Registration) {
			r.Groups, r.OrganizationUnits = []string{"g"}, []string{"h", "ou"}
		},
		"namespace": func(r *registration.Registration) { r.Namespace = "other" },
		"hosted":    func(r *registration.Registration) { r.Hosted = true },
	} {
		other := r
		change(&other)
		if same, found := seen[other.Identity()]; found {
			t.Errorf("another %s makes no difference to %s", name, same)
		}
		seen[other.Identity()] = name
	}
	ordered := r
	ordered.Groups = []string{"h", "g"}
	if ordered.Identity() != r.Identity() {
		t.Error("the order of groups makes a difference")
	}
}
