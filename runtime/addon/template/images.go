package template

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// registriesOf are the registries of images in a cluster: those of the configuration,
// even if they are an empty list, or else those of the cluster's annotation.
func registriesOf(c *clusterv1.ManagedCluster, config *v1alpha1.AddOnDeploymentConfig) ([]v1alpha1.ImageMirror, error) {
	if config != nil && config.Spec.Registries != nil {
		return config.Spec.Registries, nil
	}
	if c == nil || c.Annotations[cluster.ImageRegistriesAnnotation] == "" {
		return nil, nil
	}
	var said struct {
		Registries []v1alpha1.ImageMirror `json:"registries"`
	}
	value := c.Annotations[cluster.ImageRegistriesAnnotation]
	if err := json.Unmarshal([]byte(value), &said); err != nil {
		return nil, fmt.Errorf("ManagedCluster %q: its annotation %s, %s, can't be read: %w: write it as"+
			` {"registries":[{"source":"quay.io/team","mirror":"registry.example.org/team"}]}`, c.Name, cluster.ImageRegistriesAnnotation, quoted(value), err)
	}
	return said.Registries, nil
}

// replaceImage takes a container's image from the registry that fits it last. Each
// looks at the image as the template has it.
func (c *changes) replaceImage(container map[string]any, at string) error {
	if len(c.registries) == 0 || container["image"] == nil {
		return nil
	}
	own, ok := container["image"].(string)
	if !ok {
		return fmt.Errorf("%s.image is %s, and has to be a text", at, quoted(fmt.Sprint(container["image"])))
	}
	if own == "" {
		return nil
	}
	const what = "the registries"
	if err := c.left.step(len(c.registries), what); err != nil {
		return err
	}
	for i := len(c.registries) - 1; i >= 0; i-- {
		r := c.registries[i]
		if image := imageFrom(r, own); image != own {
			if image == "" {
				return fmt.Errorf("%s.image %q: nothing is left of it with the registry %q instead of %q: name a mirror", at, own, r.Mirror, r.Source)
			}
			if err := c.left.grow(len(image), what); err != nil {
				return err
			}
			container["image"] = image
			return nil
		}
	}
	return nil
}

// imageFrom is an image as a mirror has it: with the beginning source replaced, or,
// without a source, the last part of its name. It is the image itself where the mirror
// does not fit it. Tags, digests and ports stay as they are.
func imageFrom(r v1alpha1.ImageMirror, image string) string {
	source, mirror := strings.TrimSuffix(r.Source, "/"), strings.TrimSuffix(r.Mirror, "/")
	rest, fits := strings.CutPrefix(image, source)
	switch {
	case !fits:
		return image
	case source == "":
		rest = "/" + image[strings.LastIndex(image, "/")+1:]
	}
	if mirror == "" {
		return strings.TrimPrefix(rest, "/")
	}
	return mirror + rest
}
