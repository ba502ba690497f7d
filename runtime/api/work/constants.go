package work

const GroupName = "work.open-cluster-management.io"
