package addon

const GroupName = "addon.open-cluster-management.io"
