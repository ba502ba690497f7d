package inprocess

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
)

// State is what is known of the objects that were made.
type State struct {
	Instances map[string]*Instance
	Outputs   map[string]OutputValue
}

// Instance is one object, or what a data source has read.
type Instance struct {
	Address  string
	Type     string
	Name     string
	Key      cty.Value // of count or for_each; NilVal without
	Data     bool
	Value    cty.Value
	Private  []byte
	Identity *tfprotov6.ResourceIdentityData
	// Tainted says that its creation has failed halfway.
	Tainted bool
	// After are the addresses of the resources that it depends on.
	After   []string
	version int64
}

// OutputValue is the value of an output.
type OutputValue struct {
	Value     cty.Value
	Sensitive bool
}

// NewState is an empty one.
func NewState() *State {
	return &State{Instances: map[string]*Instance{}, Outputs: map[string]OutputValue{}}
}

func (s *State) clone() *State {
	return &State{Instances: maps.Clone(s.Instances), Outputs: maps.Clone(s.Outputs)}
}

// resourceAddress is the address without a key.
func (i *Instance) resourceAddress() string {
	if i.Data {
		return "data." + i.Type + "." + i.Name
	}
	return i.Type + "." + i.Name
}

// of are the instances of a resource, by their addresses.
func (s *State) of(address string) []*Instance {
	var found []*Instance
	for _, i := range s.Instances {
		if i.resourceAddress() == address {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b *Instance) int { return strings.Compare(a.Address, b.Address) })
	return found
}

// Action is what is done to an object.
type Action string

// The actions.
const (
	NoOp    Action = "no-op"
	Create  Action = "create"
	Read    Action = "read"
	Update  Action = "update"
	Delete  Action = "delete"
	Replace Action = "replace"
)

// Change is what is planned for one object.
type Change struct {
	*Instance // as it was before
	Action    Action
	// Before and After are null for an object that does not exist then.
	Before, After cty.Value
	// Importing is set for an object that the plan imports.
	Importing *string
	// Replaces are the paths that make an update impossible.
	Replaces []cty.Path

	schema  *schema
	private []byte // before
	drifted cty.Value
}

// OutputChange is what is planned for an output.
type OutputChange struct {
	Action        Action
	Before, After cty.Value
	Sensitive     bool
}

// Plan is what an apply will do.
type Plan struct {
	Changes     map[string]*Change
	Outputs     map[string]OutputChange
	Diagnostics Diagnostics
	Destroy     bool

	prior  *State // refreshed
	config *configuration
	tf     *Terraform
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool {
	for _, c := range p.Changes {
		if c.Action != NoOp {
			return false
		}
	}
	for _, o := range p.Outputs {
		if o.Action != NoOp {
			return false
		}
	}
	return true
}
