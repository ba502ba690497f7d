// Package version is the version of muster that a program was built from.
package version

import "runtime/debug"

// version is set by the release build with -ldflags "-X …/internal/version.version=v1.2.3".
var version string

// Version is the program's version: that of the release, or of the module when
// it was installed with go install, or "v0.0.0-dev".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "v0.0.0-dev"
}

// Module is the version of a module that is linked into this program, such as
// "v1.37.1" for k8s.io/kubernetes, and "" when it is not linked in.
func Module(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version
		}
	}
	return ""
}
