package controlplane

import (
	"strconv"

	apimachineryversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
	baseversion "k8s.io/component-base/version"

	musterversion "github.com/muster-fleet/terraform-provider-muster/internal/version"
)

// servedVersion makes /version report the release of Kubernetes that is inside.
// Kubernetes takes it from linker flags, which go install does not set, and
// without which kubectl refuses to compare versions.
type servedVersion struct {
	compatibility.EffectiveVersion
	info *version.Info
}

func (v servedVersion) Info() *version.Info { return v.info }

// withServedVersion is effective, but for what /version says.
func withServedVersion(effective compatibility.EffectiveVersion) compatibility.EffectiveVersion {
	info := *effective.Info()
	release, err := apimachineryversion.ParseSemantic(musterversion.Module("k8s.io/kubernetes"))
	if err != nil {
		// Test binaries do not know their modules.
		release = apimachineryversion.MustParseSemantic(baseversion.DefaultKubeBinaryVersion + ".0")
	}
	info.Major, info.Minor = strconv.Itoa(int(release.Major())), strconv.Itoa(int(release.Minor()))
	info.GitVersion = "v" + release.String() + "+muster"
	info.GitCommit, info.GitTreeState, info.BuildDate = "", "", ""
	return servedVersion{EffectiveVersion: effective, info: &info}
}
