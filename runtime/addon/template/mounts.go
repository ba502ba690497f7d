package template

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
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
