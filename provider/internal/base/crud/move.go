package crud

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

// The resources of other providers that hold any Kubernetes object.
const (
	kubernetesManifest = "kubernetes_manifest" // hashicorp/kubernetes
	kubectlManifest    = "kubectl_manifest"    // alekc/kubectl and gavinbunney/kubectl
)

// MoveState implements resource.ResourceWithMoveState. It lets a `moved` block turn a
// kubernetes_manifest or a kubectl_manifest into the resource. The object is the one in the
// old resource's state; the hub is not asked. The claim knows where the object comes from.
func (r *kindResource[O]) MoveState(context.Context) []resource.StateMover {
	if r.kind.Part != nil {
		return nil
	}
	return []resource.StateMover{{StateMover: func(ctx context.Context, req resource.MoveStateRequest,
		resp *resource.MoveStateResponse) {
		if req.SourceTypeName != kubernetesManifest && req.SourceTypeName != kubectlManifest {
			return // The framework says that this can't be moved.
		}
		source, err := parseSource(req)
		object := r.kind.empty()
		if err == nil {
			err = source.into(object)
		}
		var state *instance[O]
		if err == nil {
			state, err = r.kind.imported(object)
		}
		if err != nil {
			resp.Diagnostics.AddError("Cannot move a "+req.SourceTypeName+" to this resource",
				fmt.Sprintf("%s. Nothing was changed. Correct the moved block, or remove it and import the object: a "+
					"removed block with destroy = false takes it out of the old resource's state.", err))
			return
		}
		KeepClaim(ctx, resp.TargetPrivate, Claim{UID: source.uid, From: source.managers}, &resp.Diagnostics)
		resp.Diagnostics.Append(resp.TargetState.Set(ctx, state.stored())...)
		if resp.TargetIdentity != nil {
			resp.Diagnostics.Append(resp.TargetIdentity.Set(ctx, state.identity())...)
		}
	}}}
}

// movedSource is what another provider's state says of an object.
type movedSource struct {
	// manifest is the object as the configuration had it, as JSON.
	manifest []byte
	// namespace takes the place of the manifest's own; empty where that counts.
	namespace string
	uid       types.UID
	// managers are the field managers under which it was written.
	managers []string
}

// value is a value of any type in a state.
type value struct {
	Value json.RawMessage `json:"value"`
}

func parseSource(req resource.MoveStateRequest) (movedSource, error) {
	if req.SourceRawState == nil || len(req.SourceRawState.JSON) == 0 {
		return movedSource{}, fmt.Errorf("the state has nothing of it; run terraform apply -refresh-only with the " +
			"old provider first")
	}
	if req.SourceTypeName == kubectlManifest {
		return parseKubectl(req.SourceRawState.JSON)
	}
	var state struct {
		Manifest     value `json:"manifest"`
		Object       value `json:"object"`
		FieldManager []struct {
			Name string `json:"name"`
		} `json:"field_manager"`
	}
	if err := json.Unmarshal(req.SourceRawState.JSON, &state); err != nil {
		return movedSource{}, fmt.Errorf("its state can't be read: %w", err)
	}
	source := movedSource{manifest: state.Manifest.Value, managers: []string{"Terraform"}}
	for _, manager := range state.FieldManager {
		if manager.Name != "" {
			source.managers = []string{manager.Name}
		}
	}
	var live struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
	}
	if json.Unmarshal(state.Object.Value, &live) == nil {
		source.uid = live.Metadata.UID
	}
	return source, nil
}

func parseKubectl(text []byte) (movedSource, error) {
	var state struct {
		Body       string    `json:"yaml_body"`
		Namespace  string    `json:"override_namespace"`
		UID        types.UID `json:"uid"`
		ServerSide bool      `json:"server_side_apply"`
		Manager    string    `json:"field_manager"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return movedSource{}, fmt.Errorf("its state can't be read: %w", err)
	}
	manifest, err := yaml.YAMLToJSON([]byte(state.Body))
	if err != nil {
		return movedSource{}, fmt.Errorf("its yaml_body can't be read: %w", err)
	}
	// Without a name of their own, these providers write under that of the library or
	// of the program.
	source := movedSource{manifest: manifest, namespace: state.Namespace, uid: state.UID,
		managers: []string{"kubectl-client-side-apply", "HashiCorp", "terraform-provider-kubectl*"}}
	if state.ServerSide {
		source.managers = append(source.managers, "kubectl")
		if state.Manager != "" {
			source.managers = append(source.managers, state.Manager)
		}
	}
	return source, nil
}

// into decodes the manifest, if it is of the object's kind.
func (s movedSource) into(object kube.Object) error {
	wanted, _, err := hub.NewScheme().ObjectKinds(object)
	if err != nil {
		return fmt.Errorf("find the kind of %T: %w", object, err)
	}
	var has runtime.TypeMeta
	if err := json.Unmarshal(s.manifest, &has); err != nil || has.Kind == "" {
		return fmt.Errorf("its state holds no Kubernetes object: there is no kind in it")
	}
	is := schema.FromAPIVersionAndKind(has.APIVersion, has.Kind)
	switch {
	case is.GroupKind() != wanted[0].GroupKind():
		return fmt.Errorf("it is a %s of %s, and this resource manages a %s of %s", is.Kind, has.APIVersion,
			wanted[0].Kind, wanted[0].GroupVersion())
	case is != wanted[0]:
		return fmt.Errorf("it is written in the version %s of the API, and this resource needs %s: rewrite the "+
			"manifest in that version and apply it with the old provider first",
			has.APIVersion, wanted[0].GroupVersion())
	}
	if err := json.Unmarshal(s.manifest, object); err != nil {
		return fmt.Errorf("its manifest does not fit a %s: %w", is.Kind, err)
	}
	if s.namespace != "" {
		object.SetNamespace(s.namespace)
	}
	if object.GetName() == "" {
		return fmt.Errorf("its manifest has no metadata.name")
	}
	mapping, err := restmapper.Of(kinds.Provider()).RESTMapping(is.GroupKind(), is.Version)
	if err != nil {
		return fmt.Errorf("find where %s is served: %w", is.Kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && strings.TrimSpace(object.GetNamespace()) == "" {
		object.SetNamespace("default")
	}
	return nil
}
