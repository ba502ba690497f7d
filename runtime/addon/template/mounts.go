package template

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// mount is a Secret or ConfigMap that all containers of a pod get as files.
type mount struct {
	// volume is the name that the volume has if it is free.
	volume string
	// kind, key and object say what is mounted: the kind of the volume, the field with
	// the name in it, and the name.
	kind, key, object string
	path              string
}

// mountsOf are the mounts of an add-on's credentials. Two registrations may have one
// Secret, which is mounted once.
func mountsOf(addOn string, registrations []v1alpha1.RegistrationSpec) ([]mount, error) {
	var out []mount
	for i, r := range registrations {
		m := mount{volume: "hub-kubeconfig", kind: "secret", key: "secretName", object: registration.KubeClientSecret(addOn), path: path.Dir(hubKubeconfig)}
		switch r.Type {
		case v1alpha1.RegistrationTypeKubeClient:
		case v1alpha1.RegistrationTypeCustomSigner:
			if r.CustomSigner == nil {
				return nil, fmt.Errorf("spec.registration[%d] has the type CustomSigner and no customSigner: name the signer there", i)
			}
			signer := r.CustomSigner.SignerName
			m.volume, m.object = signerVolume(signer), registration.CustomSignerSecret(addOn, signer)
			m.path = "/managed/" + strings.ReplaceAll(signer, "/", "-")
		default:
			return nil, fmt.Errorf("spec.registration[%d].type %q is unknown: it has to be %s or %s",
				i, r.Type, v1alpha1.RegistrationTypeKubeClient, v1alpha1.RegistrationTypeCustomSigner)
		}
		out = append(out, m)
	}
	return out, nil
}

// signerVolume is the name of the volume with a certificate of a signer. Names of
// volumes are short and have neither dots nor slashes.
func signerVolume(signer string) string {
	name := strings.Trim("cert-"+strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, strings.ToLower(signer)), "-")
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(signer))
	return name[:validation.DNS1123LabelMaxLength-9] + "-" + hex.EncodeToString(sum[:4])
}

// mountsWhat is what messages call the mounts of credentials and certificates.
const mountsWhat = "the volumes of the template's registrations and of the proxy"

// lookup is how many steps it takes to look at one volume or mount.
const lookup = 16

// add mounts into all containers of a pod. A volume of the template that holds the same
// is used, and a path where a container has mounted something is left to it.
func (m mount) add(spec map[string]any, containers []map[string]any, left *budget) error {
	volumes, err := objectsIn(spec, podSpecAt, "volumes")
	if err != nil {
		return err
	}
	name, there, err := m.name(volumes, left)
	if err != nil {
		return err
	}
	used := false
	for i, container := range containers {
		at := fmt.Sprintf("%s.containers[%d]", podSpecAt, i)
		mounts, err := objectsIn(container, at, "volumeMounts")
		if err != nil {
			return err
		}
		if err := left.step(lookup*len(mounts), mountsWhat); err != nil {
			return err
		}
		if m.taken(mounts) {
			continue
		}
		used = true
		if err := left.grow(len(name)+len(m.path)+overhead, mountsWhat); err != nil {
			return err
		}
		list, _ := container["volumeMounts"].([]any)
		container["volumeMounts"] = append(list, map[string]any{"name": name, "mountPath": m.path})
	}
	if there || !used {
		return nil
	}
	list, _ := spec["volumes"].([]any)
	spec["volumes"] = append(list, map[string]any{"name": name, m.kind: map[string]any{m.key: m.object}})
	return nil
}

// name is the name of the volume, and whether the pod has it already.
func (m mount) name(volumes []map[string]any, left *budget) (name string, there bool, err error) {
	for n := 1; n < 100; n++ {
		if err := left.step(lookup*(1+len(volumes)), mountsWhat); err != nil {
			return "", false, err
		}
		if name = m.volume; n > 1 {
			suffix := "-" + strconv.Itoa(n)
			name = name[:min(len(name), validation.DNS1123LabelMaxLength-len(suffix))] + suffix
		}
		taken := false
		for _, volume := range volumes {
			if volume["name"] != name {
				continue
			}
			taken = true
			if source, _ := volume[m.kind].(map[string]any); source[m.key] == m.object {
				return name, true, nil
			}
		}
		if !taken {
			return name, false, nil
		}
	}
	return "", false, errors.New("there are too many volumes whose names begin with " + m.volume + ": give them other names")
}

func (m mount) taken(mounts []map[string]any) bool {
	for _, other := range mounts {
		if p, ok := other["mountPath"].(string); ok && path.Clean(p) == m.path {
			return true
		}
	}
	return false
}

// InstallNamespace is the namespace, in the managed cluster, of an add-on's agent and
// of its credentials: the agentInstallNamespace of its configuration, where there is
// one, and otherwise the namespace of the first Deployment of the template, or of its
// first DaemonSet, or open-cluster-management-agent-addon.
//
// A configuration whose agentInstallNamespace is the empty text says that the manifests
// keep their namespaces, so the Deployment's counts; one that does not have the field
// at all has its default, open-cluster-management-agent-addon. config is nil where the
// add-on has no configuration. The name of the cluster counts where the Deployment's
// namespace is {{CLUSTER_NAME}}. Manifests that can't be read are skipped.
//
// It is the same as Result.Namespace, and needs no Render.
func InstallNamespace(template *v1alpha1.AddOnTemplate, config *v1alpha1.AddOnDeploymentConfig, clusterName string) string {
	if forced := forcedNamespace(config); forced != "" {
		return forced
	}
	t, _ := parse(template)
	return t.InstallNamespace(config, clusterName)
}

// InstallNamespace is the function of this name, for a template that has been parsed.
func (t *Template) InstallNamespace(config *v1alpha1.AddOnDeploymentConfig, clusterName string) string {
	if forced := forcedNamespace(config); forced != "" {
		return forced
	}
	return t.ownNamespace(t.variables(config, clusterName).texts())
}

// forcedNamespace is the namespace that all objects of an add-on are put into, and ""
// where they keep theirs.
func forcedNamespace(config *v1alpha1.AddOnDeploymentConfig) string {
	switch {
	case config == nil:
		return ""
	case config.Spec.AgentInstallNamespace == nil:
		return addon.DefaultInstallNamespace
	default:
		return *config.Spec.AgentInstallNamespace
	}
}

// ownNamespace is the namespace of the agent by the template's own manifests. A
// namespace {{INSTALL_NAMESPACE}} that nothing gives is the default.
func (t *Template) ownNamespace(v values) string {
	if v[installNamespaceVariable].text == "" {
		v = maps.Clone(v)
		v[installNamespaceVariable] = value{text: addon.DefaultInstallNamespace}
	}
	first := map[string]string{}
	for _, m := range t.manifests {
		kind := stringIn(m.tree["kind"], v)
		if resourceOf(stringIn(m.tree["apiVersion"], v), kind) == "" {
			continue
		}
		namespace := stringIn(fieldsOf(m.tree["metadata"])["namespace"], v)
		if first[kind] == "" && len(validation.IsDNS1123Label(namespace)) == 0 {
			first[kind] = namespace
		}
	}
	return cmp.Or(first["Deployment"], first["DaemonSet"], addon.DefaultInstallNamespace)
}

// moveTo puts an object into a namespace: one that has a namespace, a Namespace itself,
// and the service accounts that a binding names. Objects without a namespace stay, as
// nobody knows here whether their kind has one.
func moveTo(o *unstructured.Unstructured, namespace string) error {
	if o.GetNamespace() != "" {
		o.SetNamespace(namespace)
	}
	if isNamespace(o) {
		o.SetName(namespace)
	}
	if kind := o.GetKind(); kind != "RoleBinding" && kind != "ClusterRoleBinding" {
		return nil
	}
	subjects, err := objectsIn(o.Object, "", "subjects")
	for _, subject := range subjects {
		if kind := subject["kind"]; kind != "User" && kind != "Group" {
			subject["namespace"] = namespace
		}
	}
	return err
}

func isNamespace(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Namespace" && o.GetAPIVersion() == "v1"
}

// fieldsOf are the fields of an object in a tree whose names have no placeholders.
func fieldsOf(tree any) map[string]any {
	switch x := tree.(type) {
	case map[string]any:
		return x
	case patterned:
		return x.fields
	}
	return nil
}

// stringIn is a text of a tree with values for its placeholders, and "" of what is no
// text.
func stringIn(tree any, v values) string {
	switch x := tree.(type) {
	case string:
		return x
	case markedText:
		if x.size(v) <= maxIdentity {
			return x.in(v)
		}
	}
	return ""
}

// maxIdentity is how long an apiVersion, a kind or a namespace may be to be looked at, in
// bytes: those of Kubernetes have 253 at most. Longer ones are refused where they are
// made.
const maxIdentity = 1024

// Where the certificates of a proxy's authorities are in a container, and in their
// ConfigMap.
const (
	proxyCAPath = "/managed/proxy-ca"
	proxyCAKey  = "ca-bundle.crt"
)

// proxy is the way out of a cluster.
type proxy struct {
	environment []variable
	// mount is of the certificates, nil where no container gets a proxy.
	mount *mount
	// certificates are for a ConfigMap, which there is if they are not empty.
	certificates string
}

func proxyOf(addOn string, c v1alpha1.ProxyConfig) (proxy, error) {
	var p proxy
	for _, x := range []struct{ upper, lower, value string }{
		{"HTTP_PROXY", "http_proxy", c.HTTPProxy},
		{"HTTPS_PROXY", "https_proxy", c.HTTPSProxy},
		{"NO_PROXY", "no_proxy", c.NoProxy},
	} {
		if x.value != "" {
			p.environment = append(p.environment, variable{x.upper, x.value}, variable{x.lower, x.value})
		}
	}
	if len(c.CABundle) == 0 {
		return p, nil
	}
	if !utf8.Valid(c.CABundle) {
		return p, errors.New("spec.proxyConfig.caBundle is no text: it has to be certificates in PEM, base64 encoded once")
	}
	p.certificates = string(c.CABundle)
	if len(p.environment) > 0 {
		p.environment = append(p.environment, variable{"CA_BUNDLE_FILE_PATH", proxyCAPath + "/" + proxyCAKey})
		p.mount = &mount{volume: "proxy-ca-bundle", kind: "configMap", key: "name", object: proxyConfigMap(addOn), path: proxyCAPath}
	}
	return p, nil
}

// proxyConfigMap is the name of the ConfigMap with the certificates.
func proxyConfigMap(addOn string) string { return addOn + "-proxy-ca" }

// additions are the objects that a configuration adds: the ConfigMap with the proxy's
// certificates, for each workload whose pods mount it in its namespace, and otherwise in
// that of the agent.
func (c *changes) additions(
	all []*unstructured.Unstructured, namespace string,
) (out []*unstructured.Unstructured, err error) {
	if c.proxy.certificates == "" {
		return nil, nil
	}
	there := map[string]bool{}
	add := func(namespace string) {
		if there[namespace] || err != nil {
			return
		}
		there[namespace] = true
		if err = c.left.grow(len(c.proxy.certificates)+overhead, "the proxy's certificates"); err != nil {
			return
		}
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": proxyConfigMap(c.addOn), "namespace": namespace},
			"data":     map[string]any{proxyCAKey: c.proxy.certificates},
		}})
	}
	if c.proxy.mount != nil {
		for _, o := range all {
			if isWorkload(o) && o.GetNamespace() != "" {
				add(o.GetNamespace())
			}
		}
	}
	if len(out) == 0 {
		add(namespace)
	}
	return out, err
}
