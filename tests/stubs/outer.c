int trainctl_inner(void);
int trainctl_outer(void) { return trainctl_inner(); }
