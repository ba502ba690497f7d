package clusterimport

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/agentoptions"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Between the model of an import and the API's object, there and back.

type importModel struct {
	specModel
	Kubeconfig        types.String `tfsdk:"kubeconfig_wo"`
	KubeconfigVersion types.Int64  `tfsdk:"kubeconfig_wo_version"`
	statusModel
	Wait           *waitModel     `tfsdk:"wait"`
	Ready          types.Bool     `tfsdk:"ready"`
	Adopt          types.Bool     `tfsdk:"adopt"`
	ForceConflicts types.Bool     `tfsdk:"force_conflicts"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
}

// specModel is what a configuration says of an import.
type specModel struct {
	Name             types.String   `tfsdk:"name"`
	Labels           types.Map      `tfsdk:"labels"`
	Annotations      types.Map      `tfsdk:"annotations"`
	KubeconfigSecret types.String   `tfsdk:"kubeconfig_secret"`
	ForgetAfterJoin  types.Bool     `tfsdk:"forget_after_join"`
	Endpoint         *endpointModel `tfsdk:"endpoint"`
	Agent            *agentModel    `tfsdk:"agent"`
	ClusterLabels    types.Map      `tfsdk:"cluster_labels"`
	ClusterSet       types.String   `tfsdk:"cluster_set"`
	Accept           types.Bool     `tfsdk:"accept"`
	Redeploy         types.Int64    `tfsdk:"redeploy"`
	ClusterUID       types.String   `tfsdk:"cluster_uid"`
}

type endpointModel struct {
	Server   types.String `tfsdk:"server"`
	CA       types.String `tfsdk:"cluster_ca_certificate"`
	ProxyURL types.String `tfsdk:"proxy_url"`
	Trust    types.String `tfsdk:"trust"`
}

type agentModel struct {
	agentoptions.Model
	Namespace types.String `tfsdk:"namespace"`
}

// What implements crud.Model.
func (m *importModel) What() string { return fmt.Sprintf("cluster import %q", m.Name.ValueString()) }

// Key implements crud.Model.
func (m *importModel) Key() (namespace, name string) { return "", m.Name.ValueString() }

// Identity implements crud.Model.
func (m *importModel) Identity() any { return attribute.NameIdentity{Name: m.Name} }

// owned is the import as an object of the hub. Whatever somebody adds changes what is
// installed or how the cluster joins, so it contradicts the configuration.
func (m *importModel) owned(object *v1alpha1.ClusterImport) crud.Owned {
	o := crud.Own(object, m.What(), m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Places = map[string]string{
		"spec.clusterUID": "cluster_uid", "spec.labels": "cluster_labels", "cannot use the Secret": "kubeconfig_secret",
		cluster.RefusedSetMembership: "cluster_set", cluster.RefusedAcceptance: "accept",
	}
	o.Write.Unwanted = func(live kube.Object) [][]string {
		imp, ok := live.(*v1alpha1.ClusterImport)
		if !ok {
			return nil
		}
		return additions(fieldsOf(m.object().Spec), fieldsOf(imp.Spec), "spec")
	}
	return o
}

// object is the ClusterImport that the model describes.
func (m *specModel) object() *v1alpha1.ClusterImport {
	object := &v1alpha1.ClusterImport{Spec: v1alpha1.ClusterImportSpec{
		KubeconfigSecret: m.KubeconfigSecret.ValueString(), ForgetAfterJoin: ptr.To(m.ForgetAfterJoin.IsNull() || m.ForgetAfterJoin.ValueBool()),
		Endpoint: m.Endpoint.endpoint(), Agent: m.Agent.options(),
		Labels: attribute.StringMap(m.ClusterLabels), ClusterSet: m.ClusterSet.ValueString(), Accept: m.Accept.ValueBool(),
		Redeploy: m.Redeploy.ValueInt64(), ClusterUID: m.ClusterUID.ValueString(),
	}}
	object.Name = m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	return object
}

func (m *endpointModel) endpoint() v1alpha1.HubEndpoint {
	if m == nil {
		return v1alpha1.HubEndpoint{}
	}
	e := v1alpha1.HubEndpoint{
		Server: m.Server.ValueString(), ProxyURL: m.ProxyURL.ValueString(),
		Trust: v1alpha1.HubTrust(attribute.OrDefault(m.Trust, string(v1alpha1.TrustBundle))),
	}
	if ca := m.CA.ValueString(); ca != "" {
		e.CABundle = []byte(ca)
	}
	return e
}

func (m *agentModel) options() v1alpha1.AgentOptions {
	if m == nil {
		return v1alpha1.AgentOptions{}
	}
	options := m.Options()
	options.Namespace = m.Namespace.ValueString()
	return options
}

// observe brings up to date what the model owns, and keeps its wording where it
// means the same as what the hub has.
func (m *importModel) observe(object *v1alpha1.ClusterImport) {
	m.specModel.observe(object)
	m.report(object)
	switch {
	case m.Wait == nil:
		m.Ready = types.BoolNull()
	case !m.Ready.ValueBool():
		m.Ready = types.BoolValue(len(m.Wait.lacks(object, "")) == 0 && !m.Wait.Available.ValueBool())
	}
}

func (m *specModel) observe(object *v1alpha1.ClusterImport) {
	spec, said := object.Spec, m.object().Spec
	live := specOf(object)
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	m.KubeconfigSecret, m.ForgetAfterJoin = live.KubeconfigSecret, live.ForgetAfterJoin
	if !attribute.Same(said.Endpoint, spec.Endpoint) {
		m.Endpoint = live.Endpoint
	}
	if !attribute.Same(said.Agent, spec.Agent) {
		m.Agent = live.Agent
	}
	if !attribute.Same(attribute.OrEmpty(said.Labels), attribute.OrEmpty(spec.Labels)) {
		m.ClusterLabels = live.ClusterLabels
	}
	if said.ClusterSet != spec.ClusterSet {
		m.ClusterSet = live.ClusterSet
	}
	if said.Accept != spec.Accept {
		m.Accept = live.Accept
	}
	if said.Redeploy != spec.Redeploy {
		m.Redeploy = live.Redeploy
	}
	if said.ClusterUID != spec.ClusterUID {
		m.ClusterUID = live.ClusterUID
	}
}

// specOf are an object's own words, with null for what it leaves out.
func specOf(object *v1alpha1.ClusterImport) specModel {
	spec := object.Spec
	m := specModel{
		Name: types.StringValue(object.Name), Labels: types.MapNull(types.StringType), Annotations: types.MapNull(types.StringType),
		KubeconfigSecret: types.StringValue(spec.KubeconfigSecret), ForgetAfterJoin: types.BoolValue(ptr.Deref(spec.ForgetAfterJoin, true)),
		ClusterLabels: types.MapNull(types.StringType), ClusterSet: attribute.OptionalString(spec.ClusterSet),
		Accept: types.BoolValue(spec.Accept), Redeploy: types.Int64Null(), ClusterUID: attribute.OptionalString(spec.ClusterUID),
	}
	if len(spec.Labels) > 0 {
		m.ClusterLabels = attribute.StringMapValue(spec.Labels)
	}
	if spec.Redeploy != 0 {
		m.Redeploy = types.Int64Value(spec.Redeploy)
	}
	if !attribute.Same(spec.Endpoint, v1alpha1.HubEndpoint{}) {
		m.Endpoint = &endpointModel{
			Server: attribute.OptionalString(spec.Endpoint.Server), CA: attribute.OptionalString(string(spec.Endpoint.CABundle)),
			ProxyURL: attribute.OptionalString(spec.Endpoint.ProxyURL), Trust: types.StringValue(string(spec.Endpoint.Trust)),
		}
	}
	if !attribute.Same(spec.Agent, v1alpha1.AgentOptions{}) {
		m.Agent = &agentModel{Model: agentoptions.ModelOf(spec.Agent), Namespace: attribute.OptionalString(spec.Agent.Namespace)}
	}
	return m
}

func importImport(object *v1alpha1.ClusterImport) *importModel {
	owned := ownership.Of(object, hub.FieldManager)
	m := &importModel{
		specModel: specOf(object), Kubeconfig: types.StringNull(), KubeconfigVersion: types.Int64Null(),
		Timeouts: attribute.NullTimeouts("create", "update", "delete"),
	}
	m.Labels, m.Annotations = namesOf(object, func(field string, live map[string]string) types.Map {
		return attribute.ImportedMap(owned.Keys("metadata", field), owned.None(), live, attribute.ImportableAnnotation)
	})
	m.report(object)
	return m
}

// namesOf are the labels and the annotations of an object, as taken makes them.
func namesOf(object metav1.Object, taken func(field string, live map[string]string) types.Map) (labels, annotations types.Map) {
	return taken("labels", object.GetLabels()), taken("annotations", object.GetAnnotations())
}
